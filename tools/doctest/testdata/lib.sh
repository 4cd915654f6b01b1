# What every session of TestRun begins with. $work is a directory of its own.
ip link set lo up
export DOCKER_CONFIG=$work/docker-config

# cover DIRECTORY ...: writes to it are lost with the session.
cover() {
	local dir
	for dir; do
		mkdir -p "$work/cover$dir/upper" "$work/cover$dir/work"
		mount -t overlay overlay -o "lowerdir=$dir,upperdir=$work/cover$dir/upper,workdir=$work/cover$dir/work" "$dir"
	done
}
# What a page may write to for good: caches, and this directory.
for dir in /tmp /root /run /var "$work" "$(go env GOCACHE)" "$(go env GOMODCACHE)"; do
	mount --bind "$dir" "$dir"
done
mount -t tmpfs none /mnt
mkdir /mnt/cover
mkdir -p "$work/cover"
mount --bind /mnt/cover "$work/cover" # an overlay cannot lie on another one
cover /etc /var/lib /srv /usr/local/bin /usr/local/share
mount -o remount,bind,ro /
cd "$work/slipway" || exit # the directory as it is mounted now

# await URL [LOG]: until somebody answers.
await() {
	local i
	for ((i = 0; i < 3000; i++)); do
		curl -fsS -o /dev/null --max-time 2 "$1" 2>/dev/null && return
		sleep 0.1
	done
	echo "nobody answers on $1" >&2
	[ $# -lt 2 ] || tail -n 30 "$2" >&2
	return 1
}

# engine [FLAG ...]: docker with one image, busybox. Without flags its containers have no network.
engine() {
	[ $# -gt 0 ] || set -- --bridge none --iptables=false
	export DOCKER_HOST=unix://$work/docker.sock
	dockerd --host "$DOCKER_HOST" --data-root "$work/docker" --exec-root "$work/docker-exec" --pidfile "$work/docker.pid" \
		--storage-driver vfs "$@" >"$work/docker.log" 2>&1 &
	local i
	for ((i = 0; i < 300; i++)); do
		docker version >/dev/null 2>&1 && break
		sleep 0.1
	done
	docker version >/dev/null || tail -n 20 "$work/docker.log" >&2
	tar -C /usr/bin -c busybox | docker import - busybox >/dev/null
}
