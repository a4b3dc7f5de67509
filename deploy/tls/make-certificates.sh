#!/usr/bin/env bash
# A certificate authority of its own for one Dask cluster, and one certificate signed by it.
#
#   make-certificates.sh DIRECTORY [DAYS]
#
# DIRECTORY gets ca.crt, tls.crt, tls.key (what every scheduler, worker and client needs) and
# ca.key (what only you need, to sign more: keep it off the cluster). Whoever holds tls.key can run
# code on the cluster: Dask admits every certificate of the authority and checks no host names.
set -euo pipefail
umask 077

directory=${1:?"usage: make-certificates.sh DIRECTORY [DAYS]"}
days=${2:-365}
if [[ ! $days =~ ^[1-9][0-9]{0,4}$ ]]; then
    echo "DAYS must be a whole number from 1 to 99999, got '$days'" >&2
    exit 2
fi
for file in ca.crt ca.key tls.crt tls.key; do
    if [[ -e $directory/$file ]]; then
        echo "$directory/$file exists: remove it or choose another directory" >&2
        exit 2
    fi
done

scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

new_key() {
    openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

new_key "$scratch/ca.key"
openssl req -x509 -new -sha256 -key "$scratch/ca.key" -out "$scratch/ca.crt" -days "$days" \
    -subj "/CN=dhsic cluster authority" \
    -addext "basicConstraints=critical,CA:TRUE,pathlen:0" \
    -addext "keyUsage=critical,keyCertSign,cRLSign"

new_key "$scratch/tls.key"
openssl req -new -sha256 -key "$scratch/tls.key" -out "$scratch/tls.csr" -subj "/CN=dhsic cluster"
cat > "$scratch/extensions" <<'EXTENSIONS'
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth,clientAuth
subjectAltName=DNS:localhost,IP:127.0.0.1
authorityKeyIdentifier=keyid
EXTENSIONS
openssl x509 -req -sha256 -in "$scratch/tls.csr" -out "$scratch/tls.crt" -days "$days" \
    -CA "$scratch/ca.crt" -CAkey "$scratch/ca.key" -CAcreateserial -extfile "$scratch/extensions" \
    2> "$scratch/log" || { cat "$scratch/log" >&2; exit 1; }

mkdir -p -- "$directory"
for file in ca.crt ca.key tls.crt tls.key; do
    mv -- "$scratch/$file" "$directory/$file"
done
chmod 644 -- "$directory/ca.crt" "$directory/tls.crt"
echo "wrote ca.crt, tls.crt, tls.key and ca.key to $directory, valid for $days days"
