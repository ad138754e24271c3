#!/usr/bin/env bash
# make_certificates.sh NAMESPACE FOLDER: an authority, and a certificate that runners and frontends of a namespace show
# each other: FOLDER/ca.crt, tls.crt, tls.key, as a Secret of type kubernetes.io/tls has them. It holds for a year.
# An authority of your own (cert-manager's, for example) does the same with the names below.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
namespace=$1 folder=$2
mkdir -p "$folder"
cd "$folder"
umask 077
curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
openssl req -x509 "${curve[@]}" -keyout ca.key -out ca.crt -days 365 -subj "/CN=graft in $namespace" 2>/dev/null
openssl req "${curve[@]}" -keyout tls.key -out tls.csr -subj "/CN=graft" 2>/dev/null
openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out tls.crt -days 365 -extfile /dev/stdin 2>/dev/null <<END
subjectAltName = DNS:*.graft-runners.$namespace.svc, DNS:localhost
extendedKeyUsage = serverAuth, clientAuth
END
# Whoever has the authority's key can sign for the cluster.
rm -f ca.key ca.srl tls.csr
echo "$folder: ca.crt, tls.crt, tls.key"
