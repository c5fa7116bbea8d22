// SPDX-License-Identifier: Apache-2.0
#include "libflare/core/kernel_class.h"

#include <gtest/gtest.h>

#include <string_view>

namespace flare {
namespace {

void ExpectAll(KernelClass expected, std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) {
    EXPECT_STREQ(KernelClassName(ClassifyKernel(name)), KernelClassName(expected)) << name;
  }
}

TEST(KernelClassTest, NvidiaMatrixProducts) {
  ExpectAll(
      KernelClass::kGemm,
      {"ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", "ampere_sgemm_128x64_nn",
       "volta_sgemm_64x64_nt", "turing_fp16_s1688gemm_fp16_256x64_ldg8_f2f_nn",
       "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_stage4_warpsize2x2x1",
       "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", "nvjet_tst_192x208_64x4_2x1_v_bz_TNN",
       "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_64x1_tn>",
       "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int>>>",
       "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>",
       "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>",
       "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half>"});
}

TEST(KernelClassTest, AmdMatrixProducts) {
  ExpectAll(KernelClass::kGemm,
            {"Cijk_Ailk_Bljk_HHS_BH_Bias_AS_SAV_UserArgs_MT128x128x32_MI16x16x1_SN",
             "Custom_Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_shortname0_gfx942_MT256x256x64",
             "void ck::kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl>",
             "void wvSplitK_hf_sml_<__hip_bfloat16, 64, 4, 16, 8, 2, 1>"});
}

TEST(KernelClassTest, TritonTemplatesAreWhatTheyCompute) {
  ExpectAll(KernelClass::kGemm,
            {"triton_tem_fused_mm_3", "triton_mm", "triton_tem_fused_addmm_relu_0",
             "_w8a8_block_fp8_matmul", "fused_moe_kernel"});
  ExpectAll(KernelClass::kAttention, {"triton_tem_fused_flex_attention_2"});
  ExpectAll(KernelClass::kOther, {"triton_poi_fused_mm_relu_1", "triton_per_fused_conv2d_mean_0",
                                  "triton_red_fused__scaled_dot_product_flash_attention_add_5"});
}

TEST(KernelClassTest, Attention) {
  ExpectAll(
      KernelClass::kAttention,
      {"void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>",
       "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128>>",
       "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>",
       "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
       "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<int>>", "attn_fwd", "bwd_kernel_dk_dv",
       "void vllm::paged_attention_v1_kernel<unsigned short, 128>",
       "void flashinfer::BatchDecodeWithPagedKVCacheKernel<2, 8>"});
  // Names of a library are not names of what it computes.
  ExpectAll(KernelClass::kOther, {"void flashinfer::norm::RMSNormKernel<8u, __half>",
                                  "void flashinfer::activation::act_and_mul_kernel<__half>"});
}

TEST(KernelClassTest, ConvolutionsAsImplicitProductsAreConvolutions) {
  ExpectAll(
      KernelClass::kConvolution,
      {"sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw",
       "void implicit_convolve_sgemm<float, float, 512, 6, 8, 3, 3, 5, 1, false>",
       "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x64>",
       "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "miopenSp3AsmConv_v30_3_1",
       "igemm_fwd_gtcx2_nhwc_fp16_bx0_ex1_bt256x256x32", "naive_conv_ab_nonpacked_fwd_nchw_float",
       "void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<1, float, int>",
       "void cudnn::cnn::conv2d_grouped_direct_kernel<false, true>",
       "triton_tem_fused_convolution_4"});
}

TEST(KernelClassTest, ConvertingIsNotConvolving) {
  ExpectAll(KernelClass::kOther, {"convert_kernel", "void fp8_convert<float>", "ConvertFp16ToFp32",
                                  "void converter::run()"});
}

TEST(KernelClassTest, CollectivesOfBothVendorsOldAndNew) {
  ExpectAll(
      KernelClass::kCommunication,
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
       "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "ncclAllReduceRingLLKernel_sum_f32(ncclColl)",
       "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
       "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
       "_Z36ncclSymDevKernel_AllReduce_RSxLD_AGxSTj", "void nccl_kernel()",
       "void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>",
       "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16>"});
}

TEST(KernelClassTest, CopiesAndFills) {
  ExpectAll(KernelClass::kMemory, {"Memcpy HtoD (Pageable -> Device)", "Memset (Device)",
                                   "__amd_rocclr_copyBuffer", "CopyDeviceToDevice", "FillBuffer"});
  ExpectAll(
      KernelClass::kOther,
      {"void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(int)>",
       "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>"});
}

TEST(KernelClassTest, UnknownAndEmptyNamesAreOther) {
  ExpectAll(KernelClass::kOther,
            {"", "x", "void at::native::vectorized_elementwise_kernel<4, int>",
             "void at::native::reduce_kernel<512, 1, float>", "cudnn::bn_fw_tr_1C11"});
  EXPECT_STREQ(KernelClassName(static_cast<KernelClass>(200)), "other");
}

}  // namespace
}  // namespace flare
