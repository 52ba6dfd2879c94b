// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// What a container sees is compared but for names, identities and addresses.
func TestCompareReports(t *testing.T) {
	facts := func(object, node, uid, ip, version, seen string) *record {
		return sample(func(r *record) {
			r.object, r.node, r.uid, r.own = object, node, uid, object+"-own"
			r.reports = map[string]map[string]string{"c.start": {
				"variable NAME": `"` + object + `"`, "variable NODE": `"` + node + `"`, "content /v/uid": `"` + uid + `"`,
				"variable IP": `"` + ip + `"`, "link /v/..data": version, "file /v/" + version + "/a": "-rw-r--r--",
				"content /v/a": seen, "folder /v/" + object: "drwxr-xr-x",
			}}
		})
	}
	kubelet := facts("web", "kubelet", "u1", "10.1.0.2", "..2026_01_02_03_04_05.123", `"a web-site"`)
	tests := map[string]struct {
		shim *record
		want []string
	}{
		"the same":      {shim: facts("web-x1", "n1", "u2", "192.168.3.4", "..2026_01_02_03_04_06.77", `"a web-site"`)},
		"other content": {shim: facts("web-x1", "n1", "u2", "10.1.0.3", "..2026_01_02_03_04_06.77", `"b"`), want: []string{"report c.start: content /v/a"}},
		"no report": {
			shim: sample(func(*record) {}),
			want: slices.Sorted(maps.Keys(compareKeys(reportTexts(kubelet)))),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range compareMaps("report ", reportTexts(kubelet), reportTexts(tc.shim)) {
				got = append(got, d.aspect)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("aspects (-want +got):\n%s", diff)
			}
		})
	}
}

func compareKeys(texts map[string]string) map[string]bool {
	keys := map[string]bool{}
	for key := range texts {
		keys["report "+key] = true
	}
	return keys
}

// The rules on what containers see declare their own difference and nothing that looks like it.
func TestDeclaredReports(t *testing.T) {
	const token = " of token /var/run/token"
	inMemory := scenario{spec: observing(configMap(settings, nil), secret(credentials, nil))}
	tests := map[string]struct {
		scenario scenario
		d        difference
		want     bool
	}{
		"bound to the Pod":         {d: difference{aspect: "report c.start: Pod" + token, kubelet: "<name> <uid>"}, want: true},
		"bound to another Pod":     {d: difference{aspect: "report c.start: Pod" + token, kubelet: "other <uid>"}},
		"no Node":                  {d: difference{aspect: "report c.start: Node" + token, kubelet: "<node> <uid>"}},
		"an hour":                  {d: difference{aspect: "report c.start: lifetime" + token, kubelet: "3607 s", shim: "3600 s"}, want: true},
		"less than an hour":        {d: difference{aspect: "report c.start: lifetime" + token, kubelet: "3607 s", shim: "3000 s"}},
		"another short time":       {d: difference{aspect: "report c.start: lifetime" + token, kubelet: "600 s", shim: "3600 s"}},
		"prolonged":                {d: difference{aspect: "report c.start: prolonged lifetime" + token, kubelet: "31536000 s"}, want: true},
		"prolonged here":           {d: difference{aspect: "report c.start: prolonged lifetime" + token, shim: "31536000 s"}},
		"another audience":         {d: difference{aspect: "report c.start: audience" + token, kubelet: "a", shim: "b"}},
		"another subject":          {d: difference{aspect: "report c.start: subject" + token, kubelet: "a", shim: "b"}},
		"a ConfigMap in memory":    {scenario: inMemory, d: difference{aspect: "report c.start: mount /v/v1 is tmpfs", shim: "true"}, want: true},
		"a Secret not in memory":   {scenario: inMemory, d: difference{aspect: "report c.start: mount /v/v2 is tmpfs", kubelet: "true"}},
		"a Secret in memory here":  {scenario: inMemory, d: difference{aspect: "report c.start: mount /v/v2 is tmpfs", shim: "true"}},
		"a ConfigMap, only read":   {scenario: inMemory, d: difference{aspect: "report c.start: mount /v/v1 is ro", kubelet: "true"}},
		"something else in memory": {scenario: scenario{spec: corev1.PodSpec{}}, d: difference{aspect: "report c.start: mount /v/v1 is tmpfs", shim: "true"}},
		"the kubelet's annotations": {
			d: difference{aspect: "report c.start: content /v/annotations", kubelet: `"a=\"1\"\nkubernetes.io/config.seen=\"2026\"\nkubernetes.io/config.source=\"api\""`, shim: `"a=\"1\""`}, want: true,
		},
		"other annotations too": {
			d: difference{aspect: "report c.start: content /v/annotations", kubelet: `"a=\"1\"\nkubernetes.io/config.seen=\"2026\""`, shim: `"a=\"2\""`},
		},
		"files that outlive their object": {
			scenario: scenario{deletesOwn: true}, want: true,
			d: difference{aspect: `event Warning FailedMount "MountVolume.SetUp failed for volume \"v1\" : configmap \"<own>\" not found" on `, kubelet: "sent"},
		},
		"files that outlive their object, said before the kubelet does": {
			scenario: scenario{deletesOwn: true}, want: true,
			d: difference{aspect: `event Warning FailedMount "MountVolume.SetUp failed for volume \"v1\" : configmap \"<own>\" not found" on `, shim: "sent"},
		},
		"files that outlive their object, said by a condition": {
			scenario: scenario{deletesOwn: true}, want: true,
			d: difference{aspect: "status at end: condition VolumesOutdated", shim: "True FilesNotUpdated"},
		},
		"outdated files of an object that was not deleted": {
			d: difference{aspect: "status at end: condition VolumesOutdated", shim: "True FilesNotUpdated"},
		},
		"back-off of a start without its object": {
			scenario: scenario{deletesOwn: true}, want: true,
			d: difference{aspect: `event Warning BackOff "Back-off restarting failed container c in pod <name>(<uid>)" on spec.containers{c}`, shim: "sent"},
		},
		"another back-off": {
			d: difference{aspect: `event Warning BackOff "Back-off restarting failed container c in pod <name>(<uid>)" on spec.containers{c}`, shim: "sent"},
		},
		"an object that was not deleted": {
			d: difference{aspect: `event Warning FailedMount "MountVolume.SetUp failed for volume \"v1\" : configmap \"<own>\" not found" on `, kubelet: "sent"},
		},
		"the same aspect elsewhere": {d: difference{aspect: "status at end: lifetime" + token, kubelet: "3607 s", shim: "3600 s"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			rest, _ := undeclared(&tc.scenario, []difference{tc.d})
			if got := len(rest) == 0; got != tc.want {
				t.Errorf("declared: %t, want %t", got, tc.want)
			}
		})
	}
}
