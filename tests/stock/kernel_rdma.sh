#!/bin/sh
# usage: unshare --mount [--user --map-root-user] kernel_rdma.sh FOLDER COMMAND...
#
# Runs COMMAND where the kernel seems to have an RDMA device, rxe0, as far as rdma-core looks when
# it lists devices: files in sysfs and a character device, for which /dev/null stands, which takes
# every command and says nothing. FOLDER is an empty one to work in.
set -e
folder=$1
shift
verbs=$folder/sys/class/infiniband_verbs/uverbs0 device=$folder/sys/class/infiniband/rxe0
mkdir -p "$verbs" "$device" "$folder/dev"
echo 6 >"$folder/sys/class/infiniband_verbs/abi_version"
echo rxe0 >"$verbs/ibdev"
echo 1 >"$verbs/abi_version"
echo 1:3 >"$verbs/dev"  # what /dev/null is
echo "1: CA" >"$device/node_type"
echo 0250:56ff:feb2:1111 >"$device/node_guid"

mount -t tmpfs weft "$folder/dev"
mkdir "$folder/dev/infiniband" "$folder/dev/shm"
for name in null zero full random urandom tty infiniband/uverbs0; do
  touch "$folder/dev/$name"
  mount --bind "/dev/$([ "$name" = infiniband/uverbs0 ] && echo null || echo "$name")" \
    "$folder/dev/$name"
done
mount --rbind "$folder/dev" /dev
SYSFS_PATH=$folder/sys exec "$@"
