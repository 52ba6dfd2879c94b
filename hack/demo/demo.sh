#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The main job from end to end on this machine: brings a stack up, applies the
# samples, and shows how containers are killed and who asked for it. Leaves the
# stack up; "make demo-down" ends it.
set -euo pipefail

# shellcheck source=hack/demo/stack.sh
. "$(dirname "$0")/stack.sh"
node=localstack

title "Bringing up etcd, kube-apiserver, containerd, the manager and the shim in $state"
up --with-objects

# of NAME: the selector of a workload's NodeWorkload on the demo's node.
of() { printf 'managedworkload.dev/workload=%s,managedworkload.dev/node=%s' "$1" "$node"; }

# kills NAME [SINCE]: the kill records of a workload, oldest first.
kills() {
  printf '$ kubectl get nw -l %s -o jsonpath=... # the kill records\n' "$(of "$1")"
  kubectl get nw -l "$(of "$1")" -o jsonpath='{range .items[0].status.kills[*]}{.container}{"|"}{.trigger}{"|"}{.requestedBy}{"|"}{.grace.seconds}{" s ("}{.grace.source}{")|"}{.outcome}{"|"}{.summary}{"\n"}{end}' |
    awk -F'|' 'BEGIN { row = "%-10s %-18s %-14s %-15s %-15s %s\n"
        printf row, "CONTAINER", "TRIGGER", "ASKED BY", "GRACE", "OUTCOME", "SUMMARY" }
      { line[NR] = $0 }
      END { for (i = NR; i > 0; i--) { split(line[i], f, "|"); printf row, f[1], f[2], f[3], f[4], f[5], f[6] } }'
}

# wait_kill NAME TRIGGER: until a kill of that trigger has ended.
wait_kill() {
  kubectl wait nw -l "$(of "$1")" --timeout=120s \
    --for=jsonpath="{.status.kills[?(@.trigger==\"$2\")].phase}=Done" >/dev/null
}

title "1. Apply the samples and wait until they are ready"
grant
run kubectl apply -k config/samples
run kubectl wait mw --all --for=condition=Ready --timeout=120s
run kubectl get mw
run kubectl get nw

title "2. A liveness failure: preStop hook, SIGTERM, exit, restart"
ip=$(kubectl get nw -l "$(of web)" -o jsonpath='{.items[0].status.podIPs[0]}')
echo "\$ http-get http://$ip:8080/fail   # the server turns unhealthy"
bin/testprogram http-get "http://$ip:8080/fail" >/dev/null
wait_kill web LivenessProbe
kubectl wait nw -l "$(of web)" --timeout=120s --for=jsonpath='{.status.restarts}=1' >/dev/null
run kubectl wait mw web --for=condition=Ready --timeout=60s
kills web

title "3. A program that ignores SIGTERM, asked to restart: the runtime has to force it after 4 s"
run kubectl patch mw stubborn --type=merge -p '{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"2026-01-01T00:00:00Z"}}}}}'
wait_kill stubborn RestartRequested
kills stubborn

title "4. A changed image: the container is killed and restarted in its sandbox"
echo "pod IP before: $ip"
run kubectl patch mw web --type=json -p '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"managedworkload.dev/testprogram:v2"}]'
wait_kill web DefinitionChanged
run kubectl wait mw web --for=condition=Ready --timeout=60s
echo "pod IP after:  $(kubectl get nw -l "$(of web)" -o jsonpath='{.items[0].status.podIPs[0]}')"
kills web

title "5. A graceful delete: it returns when the containers are gone, the sidecar after the main container"
run kubectl delete mw with-sidecar --timeout=60s
run kubectl get events --field-selector involvedObject.kind=ManagedWorkload,involvedObject.name=with-sidecar,reason=Killed -o custom-columns=TIME:.lastTimestamp,REASON:.reason,MESSAGE:.message
run kubectl get mw
run kubectl get nw

title "6. What is refused: no more by a ManagedWorkload than by a Pod"
kubectl create namespace team-a >/dev/null
kubectl label namespace team-a pod-security.kubernetes.io/enforce=restricted >/dev/null
kubectl create role owner -n team-a --verb='*' --resource='*.*' >/dev/null
kubectl create rolebinding owner -n team-a --role=owner --user=owner >/dev/null
kubectl create role editor -n team-a --verb='*' --resource=managedworkloads.managedworkload.dev >/dev/null
kubectl create rolebinding editor -n team-a --role=editor --user=editor >/dev/null

# refused WORDS WHO KIND SPEC: applies it as somebody, and fails unless it is refused in these
# words.
refused() {
  local said
  printf '$ kubectl apply --as=%s -n team-a -f -   # %s %s\n' "$2" "$3" "$4"
  if said=$(printf 'apiVersion: managedworkload.dev/v1alpha1\nkind: %s\nmetadata: {name: mine}\nspec: %s\n' "$3" "$4" |
    kubectl apply --as="$2" -n team-a -f - 2>&1); then
    echo "It was not refused: $said" >&2
    exit 1
  fi
  echo "$said"
  if ! grep -qF "$1" <<<"$said"; then
    echo "It was refused for something else." >&2
    exit 1
  fi
}
privileged='template: {spec: {containers: [{name: c, image: i, securityContext: {privileged: true}}]}}'
refused 'create a ManagedWorkload' owner NodeWorkload "{nodeName: $node, $privileged}"
refused 'violates PodSecurity' owner ManagedWorkload "{$privileged}"
refused 'must specify a handler type' owner ManagedWorkload '{template: {spec: {containers: [{name: c, image: i, livenessProbe: {}}], volumes: [{name: v, configMap: {name: v}}]}}}'
refused 'may not create pods' editor ManagedWorkload '{template: {spec: {containers: [{name: c, image: i}]}}}'
kubectl delete namespace team-a --wait=false >/dev/null

title "The stack stays up. To continue by hand:"
echo "Container logs: $state/pods-logs/<namespace>_<nodeworkload>_<uid>/<container>/<restart>.log"
echo "The runtime's socket, for managedworkload plan: unix://$state/containerd.sock"
by_hand
