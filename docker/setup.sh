#!/bin/sh
# Once, before the first `docker compose up`: sh docker/setup.sh [valkey|rabbitmq]
# Makes docker/.env, docker/secrets/ and docker/allow/allow.yaml from the examples, with passwords of its own. What is there already stays.
set -eu

broker=${1:-valkey}
case $broker in
  valkey | rabbitmq) ;;
  *)
    echo "setup.sh: $broker: one of valkey, rabbitmq" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")"

password() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

make() { # make TARGET EXAMPLE: with the passwords filled in, whole or not at all
  if [ -e "$1" ]; then
    echo "$1 is there already"
    return
  fi
  sed -e "s/CHANGE_ME_DATABASE/$database/" -e "s/CHANGE_ME_BROKER/$messages/" "$2" > "$1.partial"
  # services run as users of their own and read these files through mounts; the folder keeps others of this host out
  chmod 644 "$1.partial"
  mv "$1.partial" "$1"
  echo "$1 written"
}

written=
for name in postgres_password ledger_url valkey.conf rabbitmq.conf broker_url; do
  if [ -e "secrets/$name" ]; then written="$written $name"; fi
done
case $written in
  "" | " postgres_password ledger_url valkey.conf rabbitmq.conf broker_url") ;;
  *)
    echo "setup.sh: only$written in docker/secrets: passwords that belong together would differ." >&2
    echo "Write the others by hand from the examples, or move these away (the database keeps its old password)." >&2
    exit 1
    ;;
esac

database=$(password) messages=$(password)
chmod 700 secrets
for name in postgres_password ledger_url valkey.conf rabbitmq.conf; do
  make "secrets/$name" "secrets/$name.example"
done
make secrets/broker_url "secrets/broker_url.$broker.example"
make allow/allow.yaml allow/allow.yaml.example
if [ -e .env ]; then
  echo ".env is there already"
else
  sed "s/^COMPOSE_PROFILES=.*/COMPOSE_PROFILES=$broker/" .env.example > .env
  echo ".env written"
fi
