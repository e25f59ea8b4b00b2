# SPDX-License-Identifier: Apache-2.0
"""Where a Kubernetes may run on this machine without leaving a trace: in namespaces of network, mounts and processes of its own. With their last process the
kernel takes away all bridges, firewall rules and mounts; groups of processes (cgroups) alone have to be removed, which the process outside does, also for runs
that were killed.

    tests/kube/run starts itself again in there (enter), where `settle` makes what the programs expect of a machine."""
import glob
import os
import shutil
import signal
import subprocess
import sys
import time

INSIDE = "FLAMETREE_KUBE_INSIDE"  # the folder of the run
GROUPS = "/sys/fs/cgroup"
# The kubelet sets these of the machine; in there it sets files instead.
KERNEL = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes")
HOST = "10.90.0.1"  # the machine in the network of a run


def why_not():
    """Why this machine cannot run it, or None."""
    if os.geteuid() != 0:
        return "not root"
    if not (os.path.isdir(GROUPS + "/memory") or os.path.exists(GROUPS + "/cgroup.controllers")):
        return "no cgroups at " + GROUPS
    try:
        os.mkdir(os.path.join(group_folders()[0], "ftk-try"))
        os.rmdir(os.path.join(group_folders()[0], "ftk-try"))
    except OSError as fault:
        return "no cgroups may be made: %s" % fault
    # A file system of layers, on the disk of temporary files.
    script = """set -e
ip link set lo up; ip link add ft-try type bridge; iptables -t nat -L >/dev/null
mount -t tmpfs none /mnt; mkdir /mnt/a /mnt/b /mnt/c /mnt/d; mount -t overlay -o lowerdir=/mnt/a,upperdir=/mnt/b,workdir=/mnt/c overlay /mnt/d"""
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script], capture_output=True, text=True)
    return None if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["unshare does not do it"])[-1]


def group_folders():
    if os.path.exists(GROUPS + "/cgroup.controllers"):
        return [GROUPS]
    return sorted({os.path.realpath(path) for path in glob.glob(GROUPS + "/*") if os.path.isdir(path)})


def group_of(folder):
    """Below which the containers of a run have theirs."""
    return os.path.basename(folder)


def remove_groups(name):
    deadline = time.monotonic() + 10
    for top in group_folders():
        for folder, _, _ in os.walk(os.path.join(top, name), topdown=False):
            while True:
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:  # its processes are just ending
                    if time.monotonic() > deadline:
                        break
                    time.sleep(0.05)


def remove_stale():
    """What runs left that were killed from outside: their name has the process."""
    for top in group_folders() + ["/tmp"]:
        for path in glob.glob(top + "/ftk-[0-9]*"):
            if not os.path.exists("/proc/" + os.path.basename(path).split("-")[1]):
                shutil.rmtree(path, ignore_errors=True) if top == "/tmp" else remove_groups(os.path.basename(path))


def enter(arguments):
    """Runs this program again in namespaces of their own, and returns its status."""
    remove_stale()
    folder = "/tmp/ftk-%d" % os.getpid()  # short, since sockets lie below it
    os.mkdir(folder, 0o711)
    inner = subprocess.Popen(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B", *arguments],
                             env={**os.environ, INSIDE: folder})
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: inner.terminate())
    try:
        while True:
            try:
                return inner.wait()
            except KeyboardInterrupt:  # the command in there has it too, and ends in its own way
                continue
    finally:
        inner.kill()
        inner.wait()
        remove_groups(group_of(folder))
        shutil.rmtree(folder, ignore_errors=True)


def settle(folder):
    """The machine as the programs expect it: first thing in the namespaces."""
    for place in ("/run", "/var/log", "/var/lib/cni", "/var/lib/kubelet"):
        os.makedirs(place, exist_ok=True)  # what is not there yet stays as an empty folder
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", place], check=True)
    for name in KERNEL:
        copy = os.path.join(folder, "sys-" + name.replace("/", "-"))
        if os.path.exists("/proc/sys/" + name):
            shutil.copyfile("/proc/sys/" + name, copy)
            subprocess.run(["mount", "--bind", copy, "/proc/sys/" + name], check=True)
    script = """set -e
ip link set lo up
ip link add host type bridge; ip addr add %s/24 dev host; ip link set host up
ip route add default via %s dev host
sysctl -qw net.ipv4.ip_forward=1""" % (HOST, HOST)
    subprocess.run(["sh", "-c", script], check=True)


def first_process(command):
    """Runs a command as the first process of the namespaces has to: whatever loses its parent is waited for. Returns its status."""
    child = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: child.terminate())
    signal.signal(signal.SIGINT, lambda *_: None)
    while True:
        pid, status = os.wait()
        if pid == child.pid:
            return os.waitstatus_to_exitcode(status)
