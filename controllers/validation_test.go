// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// object makes an object of a kind with a spec, past the types of Go.
func (c *cluster) object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	u.SetNamespace(c.namespace)
	u.SetName(name)
	return u
}

func templateWith(container map[string]any, spec map[string]any) map[string]any {
	c := map[string]any{"name": "app", "image": "app:1"}
	maps.Copy(c, container)
	s := map[string]any{"containers": []any{c}, "nodeName": "nowhere"}
	maps.Copy(s, spec)
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": s}
}

// withMetadata is a template with more metadata.
func withMetadata(metadata map[string]any) map[string]any {
	template := templateWith(nil, nil)
	maps.Copy(template["metadata"].(map[string]any), metadata)
	return template
}

// strategy is a spec with one field of a rolling update.
func strategy(field string, value any) map[string]any {
	return map[string]any{
		"template":       templateWith(nil, nil),
		"updateStrategy": map[string]any{"rollingUpdate": map[string]any{field: value}},
	}
}

func TestAdmissionRefusesBadInput(t *testing.T) {
	tests := map[string]struct {
		kind string
		spec map[string]any
		want string // "" is admitted
	}{
		"a good ManagedWorkload": {kind: "ManagedWorkload", spec: map[string]any{"template": templateWith(nil, nil)}},
		"metadata that has no effect in a template": {kind: "ManagedWorkload", spec: map[string]any{"template": withMetadata(map[string]any{
			"creationTimestamp": nil, "deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": int64(3), "generation": int64(2),
			"name": "n", "namespace": "other", "generateName": "n-", "resourceVersion": "7", "selfLink": "/a", "uid": "1-2", "finalizers": []any{"a/b"},
			"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1", "controller": true}},
			"managedFields":   []any{map[string]any{"manager": "m", "operation": "Update", "time": "2026-01-02T03:04:05Z", "fieldsV1": map[string]any{"f:a": map[string]any{}}}},
		})}},
		"unknown metadata of a template": {
			kind: "ManagedWorkload", spec: map[string]any{"template": withMetadata(map[string]any{"lables": map[string]any{}})}, want: `unknown field "spec.template.metadata.lables"`,
		},
		"no template":      {kind: "ManagedWorkload", spec: map[string]any{}, want: "spec.template"},
		"an unknown field": {kind: "ManagedWorkload", spec: map[string]any{"template": templateWith(nil, map[string]any{"contianers": "x"})}, want: `unknown field "spec.template.spec.contianers"`},
		"an unknown field of ours": {
			kind: "ManagedWorkload", spec: map[string]any{"template": templateWith(nil, nil), "replicas": int64(3)}, want: `unknown field "spec.replicas"`,
		},
		"a budget of 100%":          {kind: "ManagedWorkload", spec: strategy("maxUnavailable", "100%")},
		"a budget over 100%":        {kind: "ManagedWorkload", spec: strategy("maxUnavailable", "101%"), want: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"a budget of no node":       {kind: "ManagedWorkload", spec: strategy("maxUnavailable", int64(0)), want: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"a budget of 0%":            {kind: "ManagedWorkload", spec: strategy("maxUnavailable", "0%"), want: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"a negative budget":         {kind: "ManagedWorkload", spec: strategy("maxUnavailable", int64(-1)), want: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"a budget without a number": {kind: "ManagedWorkload", spec: strategy("maxUnavailable", "some"), want: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"a budget beyond int32":     {kind: "ManagedWorkload", spec: strategy("maxUnavailable", int64(1)<<32), want: "spec.updateStrategy.rollingUpdate.maxUnavailable"},
		"a partition beyond int32":  {kind: "ManagedWorkload", spec: strategy("partition", int64(1)<<32), want: "spec.updateStrategy.rollingUpdate.partition"},
		"a negative partition":      {kind: "ManagedWorkload", spec: strategy("partition", int64(-1)), want: "spec.updateStrategy.rollingUpdate.partition"},
		"an unknown strategy": {
			kind: "ManagedWorkload", want: "spec.updateStrategy.type",
			spec: map[string]any{"template": templateWith(nil, nil), "updateStrategy": map[string]any{"type": "Recreate"}},
		},
		"OnDelete with a budget": {
			kind: "ManagedWorkload", want: "spec.updateStrategy.rollingUpdate",
			spec: map[string]any{"template": templateWith(nil, nil), "updateStrategy": map[string]any{"type": "OnDelete", "rollingUpdate": map[string]any{}}},
		},
		"a deadline below minReadySeconds": {
			kind: "ManagedWorkload", want: "spec.progressDeadlineSeconds",
			spec: map[string]any{"template": templateWith(nil, nil), "minReadySeconds": int64(600)},
		},
		"a negative history": {
			kind: "ManagedWorkload", want: "spec.revisionHistoryLimit",
			spec: map[string]any{"template": templateWith(nil, nil), "revisionHistoryLimit": int64(-1)},
		},
		"a bad quantity": {
			kind: "ManagedWorkload", want: "cpu",
			spec: map[string]any{"template": templateWith(map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": "much"}}}, nil)},
		},
		"a quantity with half an exponent": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].resources.limits.cpu",
			spec: map[string]any{"template": templateWith(map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": "1e1.5"}}}, nil)},
		},
		"a quantity that takes minutes to decode": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].resources.requests.memory",
			spec: map[string]any{"template": templateWith(map[string]any{"resources": map[string]any{"requests": map[string]any{"memory": "1e2147483648"}}}, nil)},
		},
		"an odd size of a volume": {
			kind: "ManagedWorkload", want: "spec.template.spec.volumes[0].emptyDir.sizeLimit",
			spec: map[string]any{"template": templateWith(nil, map[string]any{"volumes": []any{map[string]any{"name": "a", "emptyDir": map[string]any{"sizeLimit": "1E.5"}}}})},
		},
		"quantities of all forms": {
			kind: "ManagedWorkload",
			spec: map[string]any{"template": templateWith(map[string]any{"resources": map[string]any{"limits": map[string]any{
				"cpu": int64(2), "memory": "1.5Gi", "ephemeral-storage": "1E3", "example.com/a": "+12e-1", "example.com/b": ".5k", "example.com/c": "5.",
			}}}, nil)},
		},
		"a probe of a port beyond int32": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].livenessProbe.httpGet.port",
			spec: map[string]any{"template": templateWith(map[string]any{"livenessProbe": map[string]any{"httpGet": map[string]any{"port": int64(1) << 32}}}, nil)},
		},
		"a probe of a port by its name": {
			kind: "ManagedWorkload",
			spec: map[string]any{"template": templateWith(map[string]any{"livenessProbe": map[string]any{"tcpSocket": map[string]any{"port": "http"}}}, nil)},
		},
		"a hook of a port out of range": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].lifecycle.preStop.httpGet.port",
			spec: map[string]any{"template": templateWith(map[string]any{"lifecycle": map[string]any{"preStop": map[string]any{"httpGet": map[string]any{"port": int64(65536)}}}}, nil)},
		},
		"a NodeWorkload with a port beyond int32": {
			kind: "NodeWorkload", want: "spec.template.spec.containers[0].lifecycle.postStart.tcpSocket.port",
			spec: map[string]any{"nodeName": "n1", "template": templateWith(map[string]any{"lifecycle": map[string]any{"postStart": map[string]any{"tcpSocket": map[string]any{"port": int64(-1)<<31 - 1}}}}, nil)},
		},
		"a port that is no number": {
			kind: "ManagedWorkload", want: "containerPort",
			spec: map[string]any{"template": templateWith(map[string]any{"ports": []any{map[string]any{"containerPort": "http"}}}, nil)},
		},
		"a port out of range": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].ports[0].containerPort",
			spec: map[string]any{"template": templateWith(map[string]any{"ports": []any{map[string]any{"containerPort": int64(70000)}}}, nil)},
		},
		"a bad name": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].name",
			spec: map[string]any{"template": templateWith(map[string]any{"name": "Bad_Name"}, nil)},
		},
		"a negative grace period": {
			kind: "ManagedWorkload", want: "spec.template.spec.terminationGracePeriodSeconds",
			spec: map[string]any{"template": templateWith(nil, map[string]any{"terminationGracePeriodSeconds": int64(-1)})},
		},
		"no containers": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers",
			spec: map[string]any{"template": templateWith(nil, map[string]any{"containers": []any{}})},
		},
		"a probe that runs -1 s apart": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].livenessProbe.periodSeconds",
			spec: map[string]any{"template": templateWith(map[string]any{"livenessProbe": map[string]any{"periodSeconds": int64(-1)}}, nil)},
		},
		"a probe with a negative grace period": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].livenessProbe.terminationGracePeriodSeconds",
			spec: map[string]any{"template": templateWith(map[string]any{"livenessProbe": map[string]any{"terminationGracePeriodSeconds": int64(-1)}}, nil)},
		},
		"a long name of a port": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].ports[0].name",
			spec: map[string]any{"template": templateWith(map[string]any{"ports": []any{map[string]any{"name": "a-name-of-a-port", "containerPort": int64(1)}}}, nil)},
		},
		"a hook that sleeps -1 s": {
			kind: "ManagedWorkload", want: "spec.template.spec.containers[0].lifecycle.preStop.sleep.seconds",
			spec: map[string]any{"template": templateWith(map[string]any{"lifecycle": map[string]any{"preStop": map[string]any{"sleep": map[string]any{"seconds": int64(-1)}}}}, nil)},
		},
		"a bad name of a volume": {
			kind: "ManagedWorkload", want: "spec.template.spec.volumes[0].name",
			spec: map[string]any{"template": templateWith(nil, map[string]any{"volumes": []any{map[string]any{"name": "a.b"}}})},
		},
		"a good NodeWorkload":             {kind: "NodeWorkload", spec: map[string]any{"nodeName": "n1", "template": templateWith(nil, nil), "deletionGracePeriodSeconds": int64(3)}},
		"a NodeWorkload without a node":   {kind: "NodeWorkload", spec: map[string]any{"template": templateWith(nil, nil)}, want: "spec.nodeName"},
		"a NodeWorkload of an empty node": {kind: "NodeWorkload", spec: map[string]any{"nodeName": "", "template": templateWith(nil, nil)}, want: "spec.nodeName"},
		"a back-off of its own":           {kind: "ManagedWorkload", spec: map[string]any{"template": templateWith(nil, nil), "restartBackoff": map[string]any{"baseSeconds": int64(1), "maxSeconds": int64(300)}}},
		"a first wait above 300 s": {
			kind: "ManagedWorkload", want: "spec.restartBackoff.baseSeconds",
			spec: map[string]any{"template": templateWith(nil, nil), "restartBackoff": map[string]any{"baseSeconds": int64(301)}},
		},
		"a maximum below 1 s": {
			kind: "ManagedWorkload", want: "spec.restartBackoff.maxSeconds",
			spec: map[string]any{"template": templateWith(nil, nil), "restartBackoff": map[string]any{"maxSeconds": int64(0)}},
		},
		"a first wait above the maximum": {
			kind: "NodeWorkload", want: "baseSeconds may not exceed maxSeconds",
			spec: map[string]any{"nodeName": "n1", "template": templateWith(nil, nil), "restartBackoff": map[string]any{"baseSeconds": int64(5), "maxSeconds": int64(4)}},
		},
		"a negative deletion grace period": {kind: "NodeWorkload", spec: map[string]any{"nodeName": "n1", "template": templateWith(nil, nil), "deletionGracePeriodSeconds": int64(-1)}, want: "spec.deletionGracePeriodSeconds"},
	}
	killRequest := func(field string, value any) map[string]any {
		spec := map[string]any{"workloadName": "web", "nodes": map[string]any{"all": true}, "action": "Restart"}
		spec[field] = value
		return spec
	}
	const direction = "characters that change the direction of text"
	for what, tc := range map[string]struct {
		field string
		value any
		want  string
	}{
		"a reason in words":            {"reason", "größer als 3 %: „so“", ""},
		"a reason that clears":         {"reason", "x\x1b[2Jy", direction},
		"a reason that rings":          {"reason", "x\ay", direction},
		"a reason of two lines":        {"reason", "x\ny", direction},
		"a reason with C1 codes":       {"reason", "x\u009b31my", direction},
		"a reason that turns round":    {"reason", "x\u202ey", direction},
		"a reason with a mark":         {"reason", "x\u200fy", direction},
		"a workload that turns round":  {"workloadName", "x\u202ey", direction},
		"a container that turns round": {"containers", []any{"x\u202ey"}, "spec.containers[0]"},
		"a node that turns round":      {"nodes", map[string]any{"names": []any{"x\u202ey"}}, "spec.nodes.names[0]"},
		"a selector at its bounds": {"nodes", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{
			strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63): strings.Repeat("c", 63),
		}}}, ""},
		"a selector with a long value": {"nodes", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"a": strings.Repeat("c", 64)}}}, "spec.nodes.selector.matchLabels.a"},
		"a selector with a long label": {"nodes", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{strings.Repeat("a", 318): "b"}}}, "317 characters"},
		"an expression with a long value": {"nodes", map[string]any{"selector": map[string]any{"matchExpressions": []any{
			map[string]any{"key": "a", "operator": "In", "values": []any{strings.Repeat("c", 64)}},
		}}}, "spec.nodes.selector.matchExpressions[0].values[0]"},
		"an expression with a long label": {"nodes", map[string]any{"selector": map[string]any{"matchExpressions": []any{
			map[string]any{"key": strings.Repeat("a", 318), "operator": "Exists"},
		}}}, "spec.nodes.selector.matchExpressions[0].key"},
		"an expression with many values": {"nodes", map[string]any{"selector": map[string]any{"matchExpressions": []any{
			map[string]any{"key": "a", "operator": "In", "values": slices.Repeat([]any{"b"}, 65)},
		}}}, "spec.nodes.selector.matchExpressions[0].values"},
		"a selector of many expressions": {"nodes", map[string]any{"selector": map[string]any{
			"matchExpressions": slices.Repeat([]any{map[string]any{"key": "a", "operator": "Exists"}}, 65),
		}}, "spec.nodes.selector.matchExpressions"},
		"a revision that turns round": {"precondition", map[string]any{"revision": "x\u202ey"}, direction},
	} {
		tests[what] = struct {
			kind string
			spec map[string]any
			want string
		}{"KillRequest", killRequest(tc.field, tc.value), tc.want}
	}
	c := newCluster(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			obj := c.object(tc.kind, "", tc.spec)
			obj.SetGenerateName("bad-")
			err := api.Create(t.Context(), obj, client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestNodeWorkloadChangesThatAreRefused(t *testing.T) {
	c := newCluster(t)
	grace := func(u *unstructured.Unstructured, v int64) {
		u.Object["spec"].(map[string]any)["deletionGracePeriodSeconds"] = v
	}
	tests := map[string]struct {
		start  map[string]any
		change func(*unstructured.Unstructured)
		want   string
	}{
		"another node":              {change: func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)["nodeName"] = "n2" }, want: "nodeName is immutable"},
		"grace set":                 {change: func(u *unstructured.Unstructured) { grace(u, 10) }},
		"grace set to all there is": {change: func(u *unstructured.Unstructured) { grace(u, 30) }},
		"grace beyond the default":  {change: func(u *unstructured.Unstructured) { grace(u, 31) }, want: "may only shrink"},
		"grace shrunk":              {start: map[string]any{"deletionGracePeriodSeconds": int64(10)}, change: func(u *unstructured.Unstructured) { grace(u, 0) }},
		"grace grown":               {start: map[string]any{"deletionGracePeriodSeconds": int64(10)}, change: func(u *unstructured.Unstructured) { grace(u, 11) }, want: "may only shrink"},
		"grace removed": {
			start: map[string]any{"deletionGracePeriodSeconds": int64(10)},
			change: func(u *unstructured.Unstructured) {
				delete(u.Object["spec"].(map[string]any), "deletionGracePeriodSeconds")
			},
			want: "may not be removed",
		},
		"grace negative": {change: func(u *unstructured.Unstructured) { grace(u, -1) }, want: "greater than or equal to 0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			spec := map[string]any{"nodeName": "n1", "template": templateWith(nil, nil)}
			maps.Copy(spec, tc.start)
			obj := c.object("NodeWorkload", "", spec)
			obj.SetGenerateName("nw-")
			if err := api.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			// The manager writes its condition in between: only the spec is sent.
			base := obj.DeepCopy()
			tc.change(obj)
			err := api.Patch(t.Context(), obj, client.MergeFrom(base))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

// What was never seen by the manager is in progress for kstatus.
func TestStatusDefaultsToUnobserved(t *testing.T) {
	c := newCluster(t)
	obj := c.object("ManagedWorkload", "fresh", map[string]any{"template": templateWith(nil, nil)})
	if err := api.Create(t.Context(), obj, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	got, found, err := unstructured.NestedInt64(obj.Object, "status", "observedGeneration")
	if err != nil || !found || got != -1 {
		t.Errorf("status.observedGeneration = %d (%v, %v), want -1", got, found, err)
	}
}

// What a shim writes into a status does not end the manager's list and watch of all
// NodeWorkloads: the times there decode, or are refused.
func TestTimesThatDoNotDecodeAreRefused(t *testing.T) {
	kill := func(start any) map[string]any {
		return map[string]any{"kills": []any{map[string]any{
			"id": "1", "container": "app", "trigger": "Orphan", "phase": "Done", "startTime": start,
			"grace": map[string]any{"seconds": int64(30), "source": "Pod"},
		}}}
	}
	tests := map[string]struct {
		status map[string]any
		want   string // "" is admitted
	}{
		"a time":                     {map[string]any{"startTime": "2026-01-02T03:04:05Z"}, ""},
		"a time in a zone":           {map[string]any{"startTime": "2026-01-02T03:04:05.5+01:00"}, ""},
		"a time in small letters":    {map[string]any{"startTime": "2026-01-02t03:04:05z"}, "status.startTime"},
		"a time without a full stop": {map[string]any{"startTime": "2026-01-02T03:04:05x5Z"}, "status.startTime"},
		"a zone without an hour":     {map[string]any{"startTime": "2026-01-02T03:04:05+99:99"}, "status.startTime"},
		"a day that does not exist":  {map[string]any{"startTime": "2026-02-30T03:04:05Z"}, "status.startTime"},
		"a list":                     {map[string]any{"startTime": []any{}}, "status.startTime"},
		"a list of times":            {map[string]any{"startTime": []any{"2026-01-02T03:04:05Z"}}, "status.startTime"},
		"a kill with microseconds":   {kill("2026-01-02T03:04:05.123456Z"), ""},
		"a kill with whole seconds":  {kill("2026-01-02T03:04:05Z"), "status.kills[0].startTime"},
		"a kill at a list":           {kill([]any{}), "status.kills[0].startTime"},
	}
	c := newCluster(t)
	obj := c.object("NodeWorkload", "times", map[string]any{"nodeName": "n1", "template": templateWith(nil, nil)})
	if err := api.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changed := obj.DeepCopy()
			changed.Object["status"] = tc.status
			err := api.Status().Patch(t.Context(), changed, client.MergeFrom(obj), client.DryRunAll)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}
