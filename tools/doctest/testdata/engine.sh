engine
# There is no Docker Hub here; engine has made busybox.
docker() { [ "$1 $2" = "pull busybox" ] || command docker "$@"; }
# A port that is taken is named with the program that has it.
python3 -m http.server --bind 127.0.0.1 5000 >/dev/null 2>&1 &
until ! tools/ports 5000 2>"$work/busy"; do kill -0 $! && sleep 0.1 || exit; done
grep "^port 5000 is in use by python3, process $!: end what listens there" "$work/busy"
kill $! && wait $! || true
