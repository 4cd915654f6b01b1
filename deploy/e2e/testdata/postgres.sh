#!/bin/sh
# What the entry point of the official image of PostgreSQL does.
set -eu
umask 077
export PGDATA=/var/lib/postgresql/data
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	printf %s "$POSTGRES_PASSWORD" >/tmp/password
	initdb --username "$POSTGRES_USER" --pwfile /tmp/password --auth scram-sha-256 --auth-local trust --encoding UTF8 --locale C.UTF-8
	rm /tmp/password
	echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
	pg_ctl --wait -o "-c listen_addresses= -k /run/postgresql" start
	createdb --host /run/postgresql --username "$POSTGRES_USER" "$POSTGRES_DB"
	pg_ctl --wait --mode fast stop
fi
exec postgres -c listen_addresses='*' -k /run/postgresql
