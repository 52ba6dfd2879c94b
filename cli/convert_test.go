// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const daemonSet = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: exporter}
spec:
  selector: {matchLabels: {app: exporter}}
  template:
    metadata: {labels: {app: exporter}}
    spec:
      automountServiceAccountToken: false
      hostNetwork: true
      containers: [{name: exporter, image: 'exporter:v1'}]
`

// asList is what kubectl get prints.
func asList(objects ...string) string {
	text := "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n"
	for _, object := range objects {
		text += "- " + strings.ReplaceAll(strings.TrimSpace(object), "\n", "\n  ") + "\n"
	}
	return text
}

// What kubectl get, kubectl kustomize and helm template print is converted; other objects are
// named and left out.
func TestConvertStreams(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: exporter}\n"
	const left = `-: document 2: kind "Service" of "v1" is not a DaemonSet of apps/v1; not converted` + "\n"
	second := strings.Replace(daemonSet, "name: exporter", "name: second", 1)
	stream := "# Source: chart/templates/empty.yaml\n---\n" + service + "---\n" + daemonSet + "---\n# Source: chart/templates/ds.yaml\n" + second
	tests := map[string]struct {
		text, wantLeft string
		want           []string
	}{
		"one":                    {text: daemonSet, want: []string{"exporter"}},
		"list of one":            {text: asList(daemonSet), want: []string{"exporter"}},
		"list":                   {text: asList(daemonSet, second), want: []string{"exporter", "second"}},
		"list with another kind": {text: asList(service, daemonSet), want: []string{"exporter"}, wantLeft: `-: document 1, item 1: kind "Service" of "v1" is not a DaemonSet of apps/v1; not converted` + "\n"},
		"stream":                 {text: stream, want: []string{"exporter", "second"}, wantLeft: left},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := run(t, "shop", tc.text, "convert", "-f", "-")
			if r.code != ExitOK || !strings.HasPrefix(r.err, tc.wantLeft) || strings.Contains(r.err, "not converted") != (tc.wantLeft != "") {
				t.Errorf("%+v", r)
			}
			if got := strings.Count(r.out, "kind: ManagedWorkload\n"); got != len(tc.want) {
				t.Errorf("%d documents in\n%s", got, r.out)
			}
			r = run(t, "shop", tc.text, "convert", "-f", "-", "-o", "json")
			if diff := cmp.Diff(tc.want, workloadNames(t, r.out, len(tc.want) > 1)); diff != "" || r.code != ExitOK {
				t.Errorf("JSON, exit code %d (-want +got):\n%s", r.code, diff)
			}
		})
	}
}

// workloadNames are those in one object of JSON: a ManagedWorkload, or several as a List.
func workloadNames(t *testing.T, text string, several bool) []string {
	t.Helper()
	var list struct {
		metav1.TypeMeta
		Metadata struct{ Name string }
		Items    []v1alpha1.ManagedWorkload
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if !several {
		if list.Kind != "ManagedWorkload" {
			t.Errorf("it is a %s", list.Kind)
		}
		return []string{list.Metadata.Name}
	}
	if list.Kind != "List" || list.APIVersion != "v1" {
		t.Errorf("it is a %s of %s", list.Kind, list.APIVersion)
	}
	var names []string
	for _, mw := range list.Items {
		if mw.Kind != "ManagedWorkload" {
			t.Errorf("an item is a %q", mw.Kind)
		}
		names = append(names, mw.Name)
	}
	return names
}

func TestConvert(t *testing.T) {
	ns := newNamespace(t)
	r := run(t, ns, daemonSet, "convert", "-f", "-")
	if r.code != ExitOK || !strings.Contains(r.out, "kind: ManagedWorkload") || !strings.Contains(r.err, "exporter: dropped: spec.selector") {
		t.Errorf("%+v", r)
	}
	refused := strings.Replace(daemonSet, "hostNetwork: true", "hostnameOverride: other", 1)
	r = run(t, ns, daemonSet+"---\n"+refused, "convert", "-f", "-")
	if r.code != ExitNo || strings.Count(r.out, "kind: ManagedWorkload") != 2 || !strings.Contains(r.out, "\n---\n") || !strings.Contains(r.err, "refused: spec.template.spec.hostnameOverride") {
		t.Errorf("%+v", r)
	}
	ds := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict([]byte(daemonSet), ds); err != nil {
		t.Fatal(err)
	}
	ds.Namespace = ns
	create(t, ds)
	r = run(t, ns, "", "convert", "daemonset/exporter", "-o", "json")
	mw := &v1alpha1.ManagedWorkload{}
	if err := json.Unmarshal([]byte(r.out), mw); err != nil || r.code != ExitOK {
		t.Fatalf("%+v: %v", r, err)
	}
	if mw.UID != "" || mw.Namespace != ns || mw.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String() != "1" {
		t.Errorf("converted from the cluster: %s", r.out)
	}
	create(t, mw) // the API server takes it
	for text, want := range map[string]string{
		"":                           "-: no DaemonSet of apps/v1 in it",
		"# nothing\n---\n":           "-: no DaemonSet of apps/v1 in it",
		"kind: Deployment":           `-: document 1: kind "Deployment" of "" is not a DaemonSet of apps/v1`,
		"just words":                 "-: document 1: ",
		daemonSet + "  unknown: 1\n": `-: document 1: error unmarshaling JSON: while decoding JSON: json: unknown field "unknown"`,
	} {
		run(t, ns, text, "convert", "-f", "-").want(t, ExitError, "", want)
	}
	run(t, ns, "", "convert").want(t, ExitError, "", "give -f FILE or daemonset/NAME")
	run(t, ns, "", "convert", "exporter").want(t, ExitError, "", "is no DaemonSet")
}
