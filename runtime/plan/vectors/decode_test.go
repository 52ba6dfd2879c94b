// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/plan/vectors"
)

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	const pod, status = `"pod":{"spec":{}}`, `"podStatus":{}`
	tests := map[string]struct {
		line string
		want string
	}{
		"no JSON":            {`nonsense`, "decode input"},
		"two values":         {freshLine + freshLine, "decode input"},
		"no object":          {`[]`, "decode input"},
		"null":               {`null`, "id: must be set"},
		"no id":              {`{` + pod + `,` + status + `}`, "id: must be set"},
		"id is no string":    {`{"id":1,` + pod + `,` + status + `}`, "id"},
		"null pod":           {`{"id":"x","pod":null,` + status + `}`, "pod: must be set"},
		"no podStatus":       {`{"id":"x",` + pod + `}`, "podStatus: must be set"},
		"pod is no object":   {`{"id":"x","pod":7,` + status + `}`, "pod"},
		"sandbox state":      {`{"id":"x",` + pod + `,"podStatus":{"sandboxes":[{"state":"GONE"}]}}`, `podStatus.sandboxes[0].state: unknown value "GONE"`},
		"null sandbox":       {`{"id":"x",` + pod + `,"podStatus":{"sandboxes":[null]}}`, "podStatus.sandboxes[0].state"},
		"network mode":       {`{"id":"x",` + pod + `,"podStatus":{"sandboxes":[{"state":"READY","networkNamespace":"HOST"}]}}`, "podStatus.sandboxes[0].networkNamespace"},
		"attempt":            {`{"id":"x",` + pod + `,"podStatus":{"sandboxes":[{"state":"READY","attempt":-1}]}}`, "attempt"},
		"container state":    {`{"id":"x",` + pod + `,"podStatus":{"containers":[{"state":"Running"}]}}`, "podStatus.containers[0].state"},
		"exit code":          {`{"id":"x",` + pod + `,"podStatus":{"containers":[{"state":"exited","exitCode":99999999999}]}}`, "exitCode"},
		"time":               {`{"id":"x",` + pod + `,"podStatus":{"containers":[{"state":"exited","finishedAt":"yesterday"}]}}`, "yesterday"},
		"liveness verdict":   {`{"id":"x",` + pod + `,` + status + `,"probes":{"liveness":{"c1":"maybe"}}}`, `probes.liveness["c1"]: unknown value "maybe"`},
		"startup verdict":    {`{"id":"x",` + pod + `,` + status + `,"probes":{"startup":{"c1":""}}}`, `probes.startup["c1"]`},
		"restart all":        {`{"id":"x",` + pod + `,` + status + `,"restartAllContainers":"no"}`, "restartAllContainers"},
		"pod policy":         {`{"id":"x","pod":{"spec":{"restartPolicy":"Often"}},` + status + `}`, "pod.spec.restartPolicy"},
		"container policy":   {`{"id":"x","pod":{"spec":{"containers":[{"restartPolicy":"Often"}]}},` + status + `}`, "pod.spec.containers[0].restartPolicy"},
		"rule of an init":    {`{"id":"x","pod":{"spec":{"initContainers":[{"restartPolicyRules":[{"action":"Explode"}]}]}},` + status + `}`, "pod.spec.initContainers[0].restartPolicyRules[0].action"},
		"operator":           {`{"id":"x","pod":{"spec":{"containers":[{"restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"Near"}}]}]}},` + status + `}`, "restartPolicyRules[0].exitCodes.operator"},
		"all faults at once": {`{"id":"x","pod":{"spec":{"restartPolicy":"Often"}},"podStatus":{"containers":[{}]}}`, "podStatus.containers[0].state"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := vectors.Decode([]byte(tt.line))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Decode error = %v, want one about %s", err, tt.want)
			}
		})
	}
}

func TestDecodePodStatus(t *testing.T) {
	t.Parallel()
	got, err := vectors.DecodePodStatus([]byte(`{"id":"u","name":"n","namespace":"ns","ips":["1"],"activeContainerIDs":["c"],` +
		`"sandboxes":[{"id":"s","state":"NOTREADY","attempt":1,"createdAt":1000000000,"networkNamespace":"NODE",` +
		`"network":{"ip":"1","additionalIPs":["2"]}}],` +
		`"containers":[{"id":"c","name":"a","state":"exited","exitCode":3,"reason":"Error","message":"m","hashMatches":false,` +
		`"restartCount":4,"createdAt":"1970-01-01T00:00:01Z","startedAt":null,"finishedAt":"1970-01-01T00:00:02Z",` +
		`"image":"i","imageID":"ii","imageRef":"ir"}]}`))
	if err != nil {
		t.Fatalf("DecodePodStatus: %v", err)
	}
	want := &plan.PodStatus{
		ID: "u", Name: "n", Namespace: "ns", IPs: []string{"1"}, ActiveContainerIDs: []string{"c"},
		Sandboxes: []plan.SandboxStatus{{
			ID: "s", State: plan.SandboxNotReady, Attempt: 1, CreatedAt: time.Unix(1, 0), NetworkNamespace: "NODE",
			Network: &plan.SandboxNetwork{IP: "1", AdditionalIPs: []string{"2"}},
		}},
		Containers: []plan.ContainerStatus{{
			ID: "c", Name: "a", State: plan.ContainerExited, ExitCode: 3, Reason: "Error", Message: "m",
			Hash: "vector:changed", RestartCount: 4, CreatedAt: time.Unix(1, 0), FinishedAt: time.Unix(2, 0),
			Image: "i", ImageID: "ii", ImageRef: "ir",
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Status differs (-want +got):\n%s", diff)
	}
	for _, bad := range []string{`7`, `{"containers":[{}]}`} {
		if _, err := vectors.DecodePodStatus([]byte(bad)); err == nil {
			t.Errorf("DecodePodStatus(%s) succeeded", bad)
		}
	}
}

func TestReasons(t *testing.T) {
	t.Parallel()
	tests := map[string]v1alpha1.KillTrigger{
		"":                     v1alpha1.TriggerDefinitionChanged,
		"StartupProbe":         v1alpha1.TriggerStartupProbe,
		"LivenessProbe":        v1alpha1.TriggerLivenessProbe,
		"FailedPostStartHook":  v1alpha1.TriggerPostStartHookFailed,
		"RestartAllContainers": v1alpha1.TriggerRestartAllContainers,
		"Unknown":              v1alpha1.TriggerUnknownState,
	}
	for reason, want := range tests {
		got, known := vectors.TriggerOf(reason)
		if got != want || !known {
			t.Errorf("TriggerOf(%q) = %q, %v, want %q", reason, got, known, want)
		}
		encoded := vectors.Encode(plan.Actions{ContainersToKill: []plan.Kill{{Trigger: want}}})
		if got := encoded.ContainersToKill[0].Reason; got != reason {
			t.Errorf("Reason of %s = %q, want %q", want, got, reason)
		}
	}
	if _, known := vectors.TriggerOf("Boredom"); known {
		t.Error("TriggerOf knows Boredom")
	}
}

func TestEncodeRemoved(t *testing.T) {
	t.Parallel()
	got := vectors.Encode(plan.Actions{ContainersToKill: []plan.Kill{
		{ID: "2", Name: "x", Trigger: v1alpha1.TriggerContainerRemoved, Message: "m", Removed: true},
		{ID: "1", Name: "a"},
	}}).ContainersToKill
	want := []vectors.Kill{{ID: "1", Name: "a", SpecName: "a"}, {ID: "2", Name: "x", Message: "m"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Kills differ (-want +got):\n%s", diff)
	}
}
