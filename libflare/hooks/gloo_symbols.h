// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of PyTorch's gloo back end (c10d::ProcessGroupGloo) that we intercept, by their
// linker names; 1.13 and 2.x. A name that one version lacks is harmless there: nobody calls it.
// libflare.map lists the same names.
#define FLARE_PG(rest) "_ZN4c10d16ProcessGroupGloo" rest

// Creation. C1 builds whole objects, C2 the base of a derived class.
#define FLARE_GLOO_CONSTRUCTOR_ARGUMENTS                                                  \
  "ERKN3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_typeIS3_" \
  "EEEEiiNS2_"                                                                            \
  "INS0_7OptionsENS5_ISA_EEEE"
#define FLARE_GLOO_CREATE FLARE_PG("C1" FLARE_GLOO_CONSTRUCTOR_ARGUMENTS)
#define FLARE_GLOO_CREATE_BASE FLARE_PG("C2" FLARE_GLOO_CONSTRUCTOR_ARGUMENTS)

// Collectives, each returns an intrusive_ptr<Work>.
#define FLARE_GLOO_BROADCAST \
  FLARE_PG("9broadcastERSt6vectorIN2at6TensorESaIS3_EERKNS_16BroadcastOptionsE")
#define FLARE_GLOO_ALLREDUCE \
  FLARE_PG("9allreduceERSt6vectorIN2at6TensorESaIS3_EERKNS_16AllreduceOptionsE")
#define FLARE_GLOO_ALLREDUCE_SPARSE \
  FLARE_PG("16allreduce_sparseERSt6vectorIN2at6TensorESaIS3_EERKNS_16AllreduceOptionsE")
#define FLARE_GLOO_ALLREDUCE_COALESCED                                  \
  FLARE_PG("19allreduce_coalescedERSt6vectorIN2at6TensorESaIS3_EERKNS_" \
           "25AllreduceCoalescedOptionsE")
#define FLARE_GLOO_REDUCE FLARE_PG("6reduceERSt6vectorIN2at6TensorESaIS3_EERKNS_13ReduceOptionsE")
#define FLARE_GLOO_ALLGATHER \
  FLARE_PG("9allgatherERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_16AllgatherOptionsE")
#define FLARE_GLOO_ALLGATHER_BASE \
  FLARE_PG("15_allgather_baseERN2at6TensorES3_RKNS_16AllgatherOptionsE")
#define FLARE_GLOO_ALLGATHER_COALESCED                                               \
  FLARE_PG(                                                                          \
      "19allgather_coalescedERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_16" \
      "AllgatherOptionsE")
#define FLARE_GLOO_ALLGATHER_TENSORS                                                \
  FLARE_PG(                                                                         \
      "31allgather_into_tensor_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_16" \
      "AllgatherOptionsE")
#define FLARE_GLOO_GATHER \
  FLARE_PG("6gatherERSt6vectorIS1_IN2at6TensorESaIS3_EESaIS5_EERS5_RKNS_13GatherOptionsE")
#define FLARE_GLOO_SCATTER \
  FLARE_PG("7scatterERSt6vectorIN2at6TensorESaIS3_EERS1_IS5_SaIS5_EERKNS_14ScatterOptionsE")
#define FLARE_GLOO_REDUCE_SCATTER                                               \
  FLARE_PG(                                                                     \
      "14reduce_scatterERSt6vectorIN2at6TensorESaIS3_EERS1_IS5_SaIS5_EERKNS_20" \
      "ReduceScatterOptionsE")
#define FLARE_GLOO_REDUCE_SCATTER_BASE \
  FLARE_PG("20_reduce_scatter_baseERN2at6TensorES3_RKNS_20ReduceScatterOptionsE")
#define FLARE_GLOO_REDUCE_SCATTER_TENSORS                                           \
  FLARE_PG(                                                                         \
      "31reduce_scatter_tensor_coalescedERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_20" \
      "ReduceScatterOptionsE")
#define FLARE_GLOO_ALLTOALL \
  FLARE_PG("8alltoallERSt6vectorIN2at6TensorESaIS3_EES6_RKNS_15AllToAllOptionsE")
#define FLARE_GLOO_ALLTOALL_BASE \
  FLARE_PG("13alltoall_baseERN2at6TensorES3_RSt6vectorIlSaIlEES7_RKNS_15AllToAllOptionsE")
#define FLARE_GLOO_BARRIER FLARE_PG("7barrierERKNS_14BarrierOptionsE")
#define FLARE_GLOO_MONITORED_BARRIER FLARE_PG("16monitoredBarrierERKNS_14BarrierOptionsEb")

// Point to point.
#define FLARE_GLOO_SEND FLARE_PG("4sendERSt6vectorIN2at6TensorESaIS3_EEii")
#define FLARE_GLOO_RECV FLARE_PG("4recvERSt6vectorIN2at6TensorESaIS3_EEii")
#define FLARE_GLOO_RECV_ANY FLARE_PG("13recvAnysourceERSt6vectorIN2at6TensorESaIS3_EEi")
#define FLARE_GLOO_SEND_WAIT FLARE_PG("8SendWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE")
#define FLARE_GLOO_RECV_WAIT FLARE_PG("8RecvWork4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE")

// From launch to completion.
#define FLARE_GLOO_NEXT_TAG FLARE_PG("7nextTagEv")
#define FLARE_GLOO_ENQUEUE                                                          \
  FLARE_PG(                                                                         \
      "7enqueueEN3c1013intrusive_ptrINS0_9AsyncWorkENS1_6detail34intrusive_target_" \
      "default_null_typeIS3_EEEE")
#define FLARE_GLOO_EXECUTE                                                          \
  FLARE_PG(                                                                         \
      "9AsyncWork7executeERKN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_" \
      "default_null_typeIS1_EEEE")
#define FLARE_GLOO_EXECUTE_BY_VALUE                                               \
  FLARE_PG(                                                                       \
      "9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_" \
      "default_null_typeIS1_EEEE")
#define FLARE_GLOO_FINISH_ERROR \
  FLARE_PG("9AsyncWork19finishWorkGlooErrorERKNSt15__exception_ptr13exception_ptrE")
#define FLARE_GLOO_FINISH_ERROR_BY_VALUE \
  FLARE_PG("9AsyncWork19finishWorkGlooErrorENSt15__exception_ptr13exception_ptrE")
