#!/usr/bin/env bash
# make_certificates.sh NAMESPACE FOLDER: an authority, and a certificate that runners and frontends of a namespace show
# each other: FOLDER/ca.crt, tls.crt, tls.key, as a Secret of type kubernetes.io/tls has them. The certificate holds for
# a year. Run again it makes a new one by the same authority, whose key stays in FOLDER/ca.key (README.md).
# An authority of your own (cert-manager's, for example) does the same with the names below.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
namespace=$1 folder=$2
mkdir -p "$folder"
cd "$folder"
umask 077
curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
if [ ! -f ca.key ] || [ ! -f signer.crt ]; then
  openssl req -x509 "${curve[@]}" -keyout ca.key -out new.crt -days 3650 -subj "/CN=graft in $namespace" 2>/dev/null
  former=$(cat ca.crt 2>/dev/null || true)
  { cat new.crt; if [ -n "$former" ]; then echo "$former"; fi; } >ca.crt
  if [ -n "$former" ] && [ -f tls.crt ]; then
    mv new.crt signer.crt
    echo "$folder: ca.crt has a new authority beside the former one, whose key is not here; tls.crt stays."
    echo "Roll this out to all pods, and then run the script again."
    exit
  fi
  mv new.crt signer.crt
fi
openssl req "${curve[@]}" -keyout tls.key -out tls.csr -subj "/CN=graft" 2>/dev/null
openssl x509 -req -in tls.csr -CA signer.crt -CAkey ca.key -CAcreateserial -out tls.crt -days 365 -extfile /dev/stdin 2>/dev/null <<END
subjectAltName = DNS:*.graft-runners.$namespace.svc, DNS:localhost
extendedKeyUsage = serverAuth, clientAuth
END
rm -f signer.srl tls.csr
echo "$folder: ca.crt, tls.crt, tls.key for the cluster; ca.key and signer.crt for the next certificate, for nobody else"
