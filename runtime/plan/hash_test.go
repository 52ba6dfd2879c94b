// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// effect is what a change of a field does.
type effect int

const (
	// none: it takes effect without a restart, or has no meaning on a node.
	none effect = iota + 1
	// restart: the container is killed and created again.
	restart
	// newSandbox: everything is killed and a new sandbox created.
	newSandbox
	// parts: it has parts of both kinds, which have entries of their own.
	parts
)

// containerFields are all fields of a container.
var containerFields = map[string]effect{
	"Name":                     restart,
	"Image":                    restart,
	"Command":                  restart,
	"Args":                     restart,
	"WorkingDir":               restart,
	"Ports":                    restart,
	"EnvFrom":                  restart,
	"Env":                      restart,
	"Resources":                none,
	"ResizePolicy":             none,
	"RestartPolicy":            none,
	"RestartPolicyRules":       none,
	"VolumeMounts":             restart,
	"VolumeDevices":            restart,
	"LivenessProbe":            none,
	"ReadinessProbe":           none,
	"StartupProbe":             none,
	"Lifecycle":                parts,
	"Lifecycle.PostStart":      none,
	"Lifecycle.PreStop":        none,
	"Lifecycle.StopSignal":     restart,
	"TerminationMessagePath":   restart,
	"TerminationMessagePolicy": restart,
	"ImagePullPolicy":          none,
	"SecurityContext":          restart,
	"Stdin":                    restart,
	"StdinOnce":                restart,
	"TTY":                      restart,
}

// podFields are all fields of a pod's spec.
var podFields = map[string]effect{
	"Volumes":                       newSandbox,
	"InitContainers":                parts,
	"Containers":                    parts,
	"EphemeralContainers":           none,
	"RestartPolicy":                 none,
	"TerminationGracePeriodSeconds": none,
	"ActiveDeadlineSeconds":         none,
	"DNSPolicy":                     newSandbox,
	"NodeSelector":                  none,
	"ServiceAccountName":            none,
	"DeprecatedServiceAccount":      none,
	"AutomountServiceAccountToken":  none,
	"NodeName":                      none,
	"HostNetwork":                   newSandbox,
	"HostPID":                       newSandbox,
	"HostIPC":                       newSandbox,
	"ShareProcessNamespace":         newSandbox,
	"SecurityContext":               newSandbox,
	"ImagePullSecrets":              none,
	"Hostname":                      newSandbox,
	"Subdomain":                     newSandbox,
	"Affinity":                      none,
	"SchedulerName":                 none,
	"Tolerations":                   none,
	"HostAliases":                   newSandbox,
	"PriorityClassName":             none,
	"Priority":                      none,
	"DNSConfig":                     newSandbox,
	"ReadinessGates":                none,
	"RuntimeClassName":              newSandbox,
	"EnableServiceLinks":            none,
	"PreemptionPolicy":              none,
	"Overhead":                      newSandbox,
	"TopologySpreadConstraints":     none,
	"SetHostnameAsFQDN":             newSandbox,
	"OS":                            none,
	"HostUsers":                     newSandbox,
	"SchedulingGates":               none,
	"ResourceClaims":                newSandbox,
	"Resources":                     newSandbox,
	"HostnameOverride":              newSandbox,
	"SchedulingGroup":               none,
}

// A field that a new version of the API brings fails here until it is decided
// what a change of it does.
func TestHashContainerFields(t *testing.T) {
	t.Parallel()
	before := plan.HashContainer(&corev1.Container{})
	lifecycle := plan.HashContainer(&corev1.Container{Lifecycle: &corev1.Lifecycle{}})
	eachField(t, reflect.TypeFor[corev1.Container](), "", containerFields, func(t *testing.T, index []int, want effect) {
		var c corev1.Container
		fill(t, reflect.ValueOf(&c).Elem().FieldByIndex(index), 0)
		if got := plan.HashContainer(&c) != before; got != (want == restart) {
			t.Errorf("A change changes the hash: %v, want %v", got, want == restart)
		}
	})
	eachField(t, reflect.TypeFor[corev1.Lifecycle](), "Lifecycle.", containerFields, func(t *testing.T, index []int, want effect) {
		var l corev1.Lifecycle
		fill(t, reflect.ValueOf(&l).Elem().FieldByIndex(index), 0)
		if got := plan.HashContainer(&corev1.Container{Lifecycle: &l}) != before; got != (want == restart) {
			t.Errorf("A change changes the hash: %v, want %v", got, want == restart)
		}
	})
	if lifecycle != before {
		t.Error("An empty lifecycle changes the hash")
	}
}

func TestHashPodFields(t *testing.T) {
	t.Parallel()
	before := plan.HashPod(&corev1.Pod{})
	eachField(t, reflect.TypeFor[corev1.PodSpec](), "", podFields, func(t *testing.T, index []int, want effect) {
		var pod corev1.Pod
		fill(t, reflect.ValueOf(&pod.Spec).Elem().FieldByIndex(index), 0)
		if got := plan.HashPod(&pod) != before; got != (want == newSandbox) {
			t.Errorf("A change changes the hash: %v, want %v", got, want == newSandbox)
		}
	})
}

// What runs with tokens of one service account does not get those of another one.
func TestHashPodServiceAccount(t *testing.T) {
	t.Parallel()
	of := func(account string, source corev1.VolumeProjection) string {
		return plan.HashPod(&corev1.Pod{Spec: corev1.PodSpec{ServiceAccountName: account, Volumes: []corev1.Volume{{
			Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}},
		}}}})
	}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
	other := corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}
	if of("a", token) == of("b", token) || of("", token) != of("default", token) {
		t.Error("The service account of a token does not count, or not as it is defaulted")
	}
	if of("a", other) != of("b", other) {
		t.Error("A service account without tokens counts")
	}
}

// Of the containers a sandbox knows the host ports and whether one is
// privileged.
func TestHashPodContainers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"image":           {change: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }},
		"port":            {change: func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}} }},
		"not privileged":  {change: func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = privileged(false) }},
		"container added": {change: func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b"}) }},
		"host port": {
			change: func(p *corev1.Pod) {
				p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
			},
			want: true,
		},
		"host port of a sidecar": {
			change: func(p *corev1.Pod) {
				p.Spec.InitContainers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
			},
			want: true,
		},
		"privileged": {change: func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = privileged(true) }, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := newPod(corev1.RestartPolicyAlways, "s1", "a")
			before := plan.HashPod(pod)
			tt.change(pod)
			if got := plan.HashPod(pod) != before; got != tt.want {
				t.Errorf("The change changes the hash: %v, want %v", got, tt.want)
			}
		})
	}
}

// On the host's network a host port is the container's own.
func TestHashPodHostNetwork(t *testing.T) {
	t.Parallel()
	pod := newPod(corev1.RestartPolicyAlways, "a")
	pod.Spec.HostNetwork = true
	before := plan.HashPod(pod)
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	if plan.HashPod(pod) != before {
		t.Error("A host port on the host's network changes the hash")
	}
}

// The hash is in the annotations of containers that run: it must be the same
// for a quantity in other words and after any way through JSON, and must not
// change from one version of the shim to the next.
func TestHashStays(t *testing.T) {
	t.Parallel()
	c := &corev1.Container{
		Name:      "app",
		Image:     "registry.example/app:1",
		Command:   []string{"/app", "--serve"},
		Env:       []corev1.EnvVar{{Name: "MODE", Value: "fast"}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}
	const wantContainer = "v2:77e16ac08f45140809b38547"
	if got := plan.HashContainer(c); got != wantContainer {
		t.Errorf("HashContainer = %q, want %q", got, wantContainer)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{*c}}}
	const wantPod = "v1:fbbf5fce921b61f1883c6cfb"
	if got := plan.HashPod(pod); got != wantPod {
		t.Errorf("HashPod = %q, want %q", got, wantPod)
	}
	c.Resources.Limits["cpu"] = resource.MustParse("1000m")
	if got := plan.HashContainer(c); got != wantContainer {
		t.Errorf("HashContainer with the quantity in other words = %q, want %q", got, wantContainer)
	}
}

func TestDefine(t *testing.T) {
	t.Parallel()
	pod := newPod(corev1.RestartPolicyAlways, "i1", "s1", "a")
	pod.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "today"}
	got := plan.Define(pod)
	if got.Pod != plan.HashPod(pod) || got.RestartedAt != "today" || len(got.Containers) != 3 {
		t.Errorf("Define = %+v, want the pod's hash, the annotation and three containers", got)
	}
	for _, name := range []string{"i1", "s1", "a"} {
		want := plan.HashContainer(spec(plan.Input{Pod: pod}, name))
		if got.Containers[name] != want || !strings.HasPrefix(want, "v2:") {
			t.Errorf("Definition of %s = %q, want %q with a version", name, got.Containers[name], want)
		}
	}
}

func privileged(v bool) *corev1.SecurityContext {
	return &corev1.SecurityContext{Privileged: &v}
}

// eachField runs a test for each field of a struct that has no parts, and fails
// for one that the table does not know, and for an entry without a field.
func eachField(t *testing.T, typ reflect.Type, prefix string, table map[string]effect,
	check func(t *testing.T, index []int, want effect)) {
	t.Helper()
	for _, field := range reflect.VisibleFields(typ) {
		t.Run(prefix+field.Name, func(t *testing.T) {
			t.Parallel()
			switch want := table[prefix+field.Name]; want {
			case 0:
				t.Errorf("It is not decided what a change of %s does", field.Name)
			case parts:
			case none, restart, newSandbox:
				check(t, field.Index, want)
			}
		})
	}
	for name := range table {
		rest, found := strings.CutPrefix(name, prefix)
		if _, known := typ.FieldByName(rest); found && !known && !strings.Contains(rest, ".") {
			t.Errorf("%s has no field %s", typ, rest)
		}
	}
}

// fill sets a value, and everything in it, to something that is not zero.
func fill(t *testing.T, v reflect.Value, depth int) {
	t.Helper()
	if depth > 12 {
		return
	}
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		v.Set(reflect.ValueOf(resource.MustParse("7")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), depth+1)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, depth+1)
		fill(t, value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(t, v.Field(i), depth+1)
			}
		}
	default:
		t.Fatalf("Cannot fill a %s", v.Type())
	}
}

// A running container keeps its limits of huge pages: another one is made for a change. CPU
// and memory change without.
func TestHugePagesAreFixed(t *testing.T) {
	t.Parallel()
	with := func(limits corev1.ResourceList) string {
		return plan.HashContainer(&corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Limits: limits}})
	}
	none := with(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")})
	two := with(corev1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")})
	four := with(corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi")})
	if none != with(nil) || two == none || four == two {
		t.Errorf("hashes without huge pages %q and %q, with %q and %q", with(nil), none, two, four)
	}
}
