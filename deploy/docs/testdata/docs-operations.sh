# A machine on which both services were installed as deploy/ says, with systemd's
# part played by functions.
cp -L "$work"/bin/* /usr/local/bin
export PATH=/usr/local/bin:$PATH
useradd --system --home-dir /var/lib/registry registry
useradd --system --home-dir /var/lib/relay relay
install -d -o registry -g registry /var/lib/registry /etc/docker/registry/auth
install -d -o relay -g relay /var/lib/relay
install -d -o registry -g registry /etc/docker/registry
install -d /etc/relay
grep -v '^  host:' deploy/config/registry.yml >/etc/docker/registry/config.yml
sed '/timeout: 1m/a \  password: bot' deploy/config/relay.yml | sed '/name: admin/a \  password: administrator' >/etc/relay/config.yml
echo "administrator" | registry htpasswd --password-stdin /etc/docker/registry/auth/htpasswd alice
chown -R registry /etc/docker/registry
cd /srv || exit

systemctl() {
	local service=$2 file
	case $1 in
	stop)
		kill "$(cat "$work/$service.pid")"
		while kill -0 "$(cat "$work/$service.pid")" 2>/dev/null; do sleep 0.05; done
		;;
	restart)
		systemctl stop "$service"
		systemctl start "$service"
		;;
	start)
		case $service in
		registry) runuser -u registry -- registry serve /etc/docker/registry/config.yml >>"$work/registry.log" 2>&1 & ;;
		relay) runuser -u relay -- relay serve --config /etc/relay/config.yml >>"$work/relay.log" 2>&1 & ;;
		esac
		echo $! >"$work/$service.pid"
		case $service in
		registry) await http://127.0.0.1:5001/debug/health "$work/registry.log" ;;
		relay) await http://127.0.0.1:8080/readyz "$work/relay.log" ;;
		esac
		;;
	esac
}
systemctl start registry
systemctl start relay

crane auth login 127.0.0.1:5000 -u alice -p administrator >/dev/null
tar -C "$work" -cf "$work/layer.tar" bin
crane append --insecure -f "$work/layer.tar" -t 127.0.0.1:5000/team/app:v1 >/dev/null
