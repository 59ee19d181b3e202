#!/bin/sh
# usage: unshare --mount --net [--map-root-user] sandbox.sh FOLDER
#
# Makes of its two namespaces a machine with an interface that is not the loopback (veth0, 10.91.7.1
# and fd91::1), since libfabric and Open MPI take no other; and with the files of a kernel's RDMA
# devices, which some programs look for before they call a library:
# /sys/class/infiniband/weft_X/device/net/X (pyverbs), /dev/infiniband/weft_X (UCX).
# FOLDER is an empty one to work in. Says "ready" and stays.
set -e
folder=$1

ip link set lo up
ip link add veth0 type veth peer name veth1
ip address add 10.91.7.1/24 dev veth0
ip address add fd91::1/64 dev veth0 nodad
ip link set veth1 addrgenmode none up  # no address: nobody takes it for a second device
ip link set veth0 up

mkdir "$folder/sys" "$folder/dev"
mount -t tmpfs weft "$folder/sys"
mount -t tmpfs weft "$folder/dev"
mkdir "$folder/sys/net" "$folder/dev/shm" "$folder/dev/infiniband"
mount --rbind /sys/class/net "$folder/sys/net"
mount --rbind /dev/shm "$folder/dev/shm"
for name in null zero full random urandom tty; do
  touch "$folder/dev/$name"
  mount --bind "/dev/$name" "$folder/dev/$name"
done
ln -s /proc/self/fd "$folder/dev/fd"
for name in lo veth0; do
  mkdir -p "$folder/sys/infiniband/weft_$name/device/net/$name"
  touch "$folder/dev/infiniband/weft_$name"
  mount --bind /dev/null "$folder/dev/infiniband/weft_$name"
done
mount --rbind "$folder/sys" /sys/class
mount --rbind "$folder/dev" /dev
echo ready
exec sleep infinity
