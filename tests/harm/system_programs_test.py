# SPDX-License-Identifier: Apache-2.0
"""Hundreds of system programs behave the same with libflare preloaded, inert and woken."""
import fnmatch
import json
import os
import subprocess
import sys
from pathlib import Path

import preload

FOLDERS = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")
LEAST_PROGRAMS = 700
TIMEOUT_S = 5

# Never run: what stops machines, destroys data, starts services, asks for passwords, or takes a
# terminal. The sandbox would contain most of it; not running it contains all of it.
DENIED = """
    reboot halt poweroff shutdown init telinit runlevel systemd* systemctl service invoke-rc.d
    update-rc.d start-stop-daemon kexec* login logind* su sudo* sulogin runuser passwd chpasswd chage
    ch[fs]n newgrp sg gpasswd *useradd *userdel *usermod *groupadd *groupdel *groupmod adduser
    deluser addgroup delgroup vipw vigr visudo mkfs* mke2fs mkswap mkdosfs dd rm rmdir shred unlink wipefs
    fdisk sfdisk cfdisk parted blkdiscard blkdeactivate fsck* e2* resize2fs tune2fs badblocks debugfs
    dumpe2fs fsfreeze fstrim swapon swapoff swaplabel losetup hwclock rtcwake ctrlaltdel
    mount* umount* pivot_root chroot switch_root nsenter unshare kill* pkill skill snice killall*
    apt* dpkg* debconf* dselect aptitude snap update-* needrestart unattended-upgrade*
    docker* containerd* runc crun podman* buildah* kubelet
    mysql* mariadb* my* innochecksum aria* *sqld* *_safe galera* wsrep* postgres* pg_* psql initdb
    redis* mongo* rabbitmq* epmd erl* nginx apache* a2* httpd memcached sqlite* dropuser dropdb
    createuser createdb clusterdb reindexdb vacuumdb vacuumlo slapd named ssh* sshd cron anacron at atd
    agetty getty mingetty screen tmux script scriptlive top htop watch setterm openvt chvt
    ip tc bridge iptables* nft* ip6tables* ebtables* arptables* xtables* sysctl modprobe insmod rmmod
    depmod kmod ifup ifdown ifquery dhclient dhcpcd wpa_* udevadm *udevd iscsi* lvm* dmsetup mdadm
    yes tzselect installkernel mkinitramfs* grub* efi* setcap capsh
""".split()

# Shows memory it never set (filan: the result of a failed FIONREAD), so anything changes it.
UNREPEATABLE = ("filan",)


def denied(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in (*DENIED, *UNREPEATABLE))


def system_programs() -> list[str]:
    """Executable files by their real path, each once."""
    found: dict[str, str] = {}
    for folder in FOLDERS:
        for path in sorted(Path(folder).iterdir()):
            real = os.path.realpath(path)
            # Names matter: one binary under two names (busybox, xz) is two programs.
            if path.is_file() and os.access(path, os.X_OK) and not denied(path.name) \
                    and not denied(os.path.basename(real)):
                found.setdefault(path.name, str(path))
    return list(found.values())


def namespace_command() -> list[str]:
    """A prefix that isolates what follows; empty when this machine does not allow it."""
    for prefix in (["unshare", "-m", "-n", "-i", "-u", "-p", "-f", "--kill-child"],):
        if os.geteuid() == 0 and subprocess.run([*prefix, "true"], capture_output=True,
                                                check=False).returncode == 0:
            return prefix
    return []


def imports_framework(program: str) -> bool:
    with open(program, "rb") as file:
        text = file.read(4096)
    return text.startswith(b"#!") and b"python" in text and (b"torch" in text or b"caffe2" in text)


def test_programs_behave_the_same_under_preload():
    programs = system_programs()
    prefix = namespace_command()
    spec = {"programs": programs, "library": str(preload.library()), "timeout_s": TIMEOUT_S,
            "parallel": os.cpu_count() or 2, "isolated": bool(prefix)}
    runner = Path(__file__).with_name("program_runner.py")
    done = subprocess.run([*prefix, sys.executable, str(runner)], input=json.dumps(spec),
                          capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    tally = json.loads(done.stdout)
    print({name: value for name, value in tally.items() if isinstance(value, int)},
          "differed once:", [problem["command"] for problem in tally["passing"]])
    assert not tally["differences"], json.dumps(tally["differences"], indent=1)
    assert tally["compared"] >= LEAST_PROGRAMS
    # A rank wakes by itself when it imports the framework, as a few of its own programs do.
    assert [name for name in tally["woken_inert"] if not imports_framework(name)] == []
    # Static programs and those that the loader protects are never woken; nearly all others are.
    assert tally["woken"] >= 0.9 * tally["compared"]
