engine
# There is no Docker Hub here; engine has made busybox.
docker() { [ "$1 $2" = "pull busybox" ] || command docker "$@"; }
