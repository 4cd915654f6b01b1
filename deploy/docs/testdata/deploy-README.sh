# As after `make build`. What asks a person is answered, what wants systemd is passed over.
mkdir -p bin /etc/systemd/system
cp -L "$work"/bin/* bin/
registry() { echo "a password" | command registry "$@"; }
systemctl() { :; }
