# The settings that the page says to make.
sed -i "s|^  homeserver:.*|  homeserver: http://127.0.0.1:1|" relay/config.example.yml
sed -i "s|connection: .*|connection: /srv/relay.db|" relay/config.example.yml
