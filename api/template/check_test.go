// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestEveryFieldIsClassified fails when the API gains a field that the table
// does not name, and when the table names one that the API does not have.
func TestEveryFieldIsClassified(t *testing.T) {
	known := classes()
	seen := map[string]bool{}
	var walk func(typ reflect.Type, key string)
	walk = func(typ reflect.Type, key string) {
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if _, ok := known[key]; ok {
			seen[key] = true
			return
		}
		switch {
		case typ.Kind() == reflect.Struct && !isLeaf(typ):
			for f := range typ.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" {
					walk(f.Type, key)
					continue
				}
				walk(f.Type, join(key, canonical(name)))
			}
		case typ.Kind() == reflect.Slice && isStructs(typ):
			walk(typ.Elem(), key+"[]")
		default:
			t.Errorf("field %q of a Pod template is in no class", key)
		}
	}
	walk(reflect.TypeFor[corev1.PodTemplateSpec](), "")
	for key := range known {
		if !seen[key] {
			t.Errorf("the table names %q, which a Pod template does not have", key)
		}
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		template           string
		wantRefused        []string
		wantWithoutMeaning []string
	}{
		"variables of ConfigMaps and Secrets": {
			template: `
spec:
  containers:
  - name: a
    image: x
    envFrom: [{prefix: P_, configMapRef: {name: c, optional: true}}, {secretRef: {name: s, optional: false}}]
    env:
    - {name: A, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}
    - {name: B, valueFrom: {secretKeyRef: {name: s, key: k, optional: false}}}
`,
		},
		"a plain template": {
			template: `{spec: {containers: [{name: a, image: x, resources: {limits: {cpu: 1, memory: 1Mi}}}], volumes: [{name: v, emptyDir: {}}]}}`,
		},
		"huge pages, and resources of the pod": {
			template: `{spec: {resources: {limits: {cpu: 1, memory: 1Mi}, requests: {cpu: 1}}, containers: [{name: a, image: x, resources: {limits: {hugepages-2Mi: 2Mi}, requests: {hugepages-2Mi: 2Mi}}}]}}`,
		},
		"stop signals, and what the API server does not know as one": {
			template: `
spec:
  initContainers: [{name: i, image: x, restartPolicy: Always, lifecycle: {stopSignal: TERM}}]
  containers:
  - {name: a, image: x, lifecycle: {stopSignal: SIGUSR1}}
  - {name: b, image: x, lifecycle: {stopSignal: SIGRTMAX-14}}
  - {name: c, image: x, lifecycle: {stopSignal: SIGTREM}}
  - {name: d, image: x, lifecycle: {stopSignal: "9"}}
  - {name: e, image: x, lifecycle: {stopSignal: ""}}
`,
			wantRefused: []string{
				"spec.template.spec.initContainers[0].lifecycle.stopSignal",
				"spec.template.spec.containers[2].lifecycle.stopSignal",
				"spec.template.spec.containers[3].lifecycle.stopSignal",
				"spec.template.spec.containers[4].lifecycle.stopSignal",
			},
		},
		"resources of the pod that are none": {
			template:    `{spec: {resources: {limits: {hugepages-2Mi: 2Mi, ephemeral-storage: 1Gi}, claims: [{name: c}]}, containers: [{name: a, image: x}]}}`,
			wantRefused: []string{"spec.template.spec.resources.limits[ephemeral-storage]", "spec.template.spec.resources.limits[hugepages-2Mi]", "spec.template.spec.resources.claims"},
		},
		"every offending path at once": {
			template: `
spec:
  hostnameOverride: other
  os: {name: windows}
  readinessGates: [{conditionType: x}]
  ephemeralContainers: [{name: e, image: x}]
  securityContext: {sysctls: [{name: vm.swappiness, value: "1"}]}
  initContainers:
  - name: i
    image: x
    env: [{name: A, valueFrom: {fileKeyRef: {volumeName: s, path: p, key: k}}}]
  containers:
  - name: a
    image: x
    lifecycle: {preStop: {tcpSocket: {port: 1}}}
    resources: {limits: {nvidia.com/gpu: 1, memory: 1Mi}}
  volumes:
  - {name: s, nfs: {}}
  - {name: h, emptyDir: {medium: Tape}}
`,
			wantRefused: []string{
				"spec.template.spec.volumes[0].nfs",
				"spec.template.spec.volumes[1].emptyDir.medium",
				"spec.template.spec.initContainers[0].env[0].valueFrom.fileKeyRef",
				"spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]",
				"spec.template.spec.containers[0].lifecycle.preStop.tcpSocket",
				"spec.template.spec.ephemeralContainers",
				"spec.template.spec.securityContext.sysctls[0].name",
				"spec.template.spec.readinessGates",
				"spec.template.spec.os.name",
				"spec.template.spec.hostnameOverride",
			},
		},
		"what has no meaning here": {
			template: `
metadata: {name: x, labels: {a: b}}
spec:
  preemptionPolicy: Never
  schedulerName: mine
  enableServiceLinks: true
  serviceAccountName: sa
  automountServiceAccountToken: false
  hostUsers: false
  affinity: {podAntiAffinity: {}}
  containers: [{name: a, image: x, resources: {requests: {ephemeral-storage: 1Gi}}}]
`,
			wantWithoutMeaning: []string{
				"spec.template.metadata.name",
				"spec.template.spec.affinity.podAntiAffinity",
				"spec.template.spec.schedulerName",
				"spec.template.spec.enableServiceLinks",
				"spec.template.spec.preemptionPolicy",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			refused, withoutMeaning := Check(parse(t, tc.template), field.NewPath("spec", "template"))
			var paths []string
			for _, e := range refused {
				paths = append(paths, e.Field)
				if e.Detail == "" && e.Type == field.ErrorTypeForbidden {
					t.Errorf("%s is refused without a reason", e.Field)
				}
			}
			if diff := cmp.Diff(tc.wantRefused, paths); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantWithoutMeaning, withoutMeaning); diff != "" {
				t.Errorf("without meaning (-want +got):\n%s", diff)
			}
		})
	}
}

// A refusal says why, and what to do instead.
func TestRefusalSaysWhatToDoInstead(t *testing.T) {
	for _, f := range Fields() {
		if f.Class == Refused && (f.Note == "" || f.Instead == "") {
			t.Errorf("%s is refused because %q, and instead: %q", f.Path, f.Note, f.Instead)
		}
	}
	refused, _ := Check(parse(t, `
spec:
  containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]
`), field.NewPath("spec", "template"))
	var got []string
	for _, err := range refused {
		got = append(got, err.Detail)
	}
	want := []string{
		"volumes of this kind are not supported; keep the data in a hostPath directory, or run what needs the volume as a Pod",
		"only cpu, memory, ephemeral-storage and hugepages are supported; pass the device by a hostPath volume to a privileged container, or run what needs it as a Pod",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCheckAcceptsDefaults: what SetDefaults fills in is never refused.
func TestCheckAcceptsDefaults(t *testing.T) {
	tmpl := parse(t, `{spec: {volumes: [{name: v}, {name: h, hostPath: {path: /}}], containers: [{name: a, image: x,
  livenessProbe: {grpc: {port: 1}}, lifecycle: {preStop: {httpGet: {port: 1}}}, ports: [{containerPort: 1}]}]}}`)
	SetDefaults(tmpl)
	if refused, _ := Check(tmpl, field.NewPath("template")); len(refused) > 0 {
		t.Errorf("defaults are refused: %v", refused.ToAggregate())
	}
}

func parse(t *testing.T, text string) *corev1.PodTemplateSpec {
	t.Helper()
	var tmpl corev1.PodTemplateSpec
	if err := yaml.UnmarshalStrict([]byte(text), &tmpl); err != nil {
		t.Fatalf("parse template: %v", err)
	}
	return &tmpl
}
