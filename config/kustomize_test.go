// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/managedworkload/managedworkload/api/objects"
)

// workloads are a ManagedWorkload and a DaemonSet of one template, and what refers to them or
// what they may refer to.
const workloads = `
- apiVersion: managedworkload.dev/v1alpha1
  kind: ManagedWorkload
  metadata: {name: mw}
  spec: {template: %[1]s}
- apiVersion: apps/v1
  kind: DaemonSet
  metadata: {name: ds}
  spec: {selector: {matchLabels: {app: hello}}, template: %[1]s}
- {apiVersion: managedworkload.dev/v1alpha1, kind: KillRequest, metadata: {name: kr}, spec: {workloadName: mw}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: it}}
- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: it}}
- {apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: it}}
`

// clone is the component as a path, from the kustomization that uses it.
var clone = filepath.Join("..", "component")

// kustomized builds a kustomization with a template, the component kustomize and some lines,
// and returns the templates of the ManagedWorkload and the DaemonSet.
func kustomized(t *testing.T, template any, edit string) (managedWorkload, daemonSet map[string]any) {
	t.Helper()
	built := kustomizedObjects(t, clone, template, edit)
	return templateOf(t, built, "ManagedWorkload"), templateOf(t, built, "DaemonSet")
}

func kustomizedObjects(t *testing.T, component string, template any, edit string) []*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"component", "use"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "component"), os.DirFS("kustomize")); err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	json, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	list := "apiVersion: v1\nkind: List\nitems:" + fmt.Sprintf(workloads, json)
	kustomization := "resources: [workloads.yaml]\ncomponents: ['" + component + "']\n" + edit
	for name, text := range map[string]string{"workloads.yaml": list, "kustomization.yaml": kustomization} {
		if err := os.WriteFile(filepath.Join(dir, "use", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	built, err := build(filepath.Join(dir, "use"))
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func templateOf(t *testing.T, built []*unstructured.Unstructured, kind string) map[string]any {
	t.Helper()
	for _, o := range built {
		if o.GetKind() == kind {
			template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
			if err != nil || !found {
				t.Fatalf("template of %s: found %v, error %v", kind, found, err)
			}
			return template
		}
	}
	t.Fatalf("no %s was built", kind)
	return nil
}

const hello = `
metadata: {labels: {app: hello}}
spec:
  containers:
  - name: hello
    image: example.com/hello:v1
    args: [serve]
    env: [{name: A, value: a}, {name: B, value: b}]
    ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]
    livenessProbe: {httpGet: {path: /healthz, port: 8080}}
  - {name: other, image: example.com/other:v1}
  volumes: [{name: v, configMap: {name: settings}}, {name: w, emptyDir: {}}]
`

func parsed(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// What kustomize does to the template of a DaemonSet it does to that of a ManagedWorkload.
func TestKustomizeTreatsATemplateAsADaemonSets(t *testing.T) {
	patch := func(text string) string {
		edit := "patches:\n"
		for kind, version := range map[string]string{"ManagedWorkload": "managedworkload.dev/v1alpha1", "DaemonSet": "apps/v1"} {
			name := map[string]string{"ManagedWorkload": "mw", "DaemonSet": "ds"}[kind]
			edit += fmt.Sprintf("- patch: |\n    {apiVersion: %s, kind: %s, metadata: {name: %s}, spec: {template: {spec: %s}}}\n", version, kind, name, text)
		}
		return edit
	}
	tests := map[string]struct {
		edit string
		want string // is in the template afterwards
	}{
		"a variable of a container": {patch(`{containers: [{name: hello, env: [{name: B, value: c}]}]}`), "value: c"},
		"a container more":          {patch(`{containers: [{name: third, image: "example.com/third:v1"}]}`), "third"},
		"a container less":          {patch(`{containers: [{name: other, $patch: delete}]}`), "serve"},
		"all containers replaced":   {patch(`{containers: [{$patch: replace}, {name: only, image: "example.com/only:v1"}]}`), "only"},
		"the port of one protocol":  {patch(`{containers: [{name: hello, ports: [{containerPort: 53, protocol: TCP, name: dns}]}]}`), "dns"},
		"another source of a volume": {
			patch(`{volumes: [{name: v, configMap: null, emptyDir: {medium: Memory}}]}`), "Memory",
		},
		"a field taken away": {patch(`{containers: [{name: hello, livenessProbe: null}]}`), "serve"},
		"a JSON 6902 patch": {
			"patches:\n- target: {name: mw|ds}\n  patch: |\n    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --verbose}\n", "--verbose",
		},
		"an image":              {"images: [{name: example.com/hello, newTag: v2}]\n", "example.com/hello:v2"},
		"a label":               {"labels: [{pairs: {team: a}, includeTemplates: true}]\n", "team: a"},
		"an annotation":         {"commonAnnotations: {note: a}\n", "note: a"},
		"a prefix":              {"namePrefix: a-\nconfigMapGenerator: [{name: settings, literals: [k=v], options: {disableNameSuffixHash: true}}]\n", "a-settings"},
		"a generated ConfigMap": {"configMapGenerator: [{name: settings, literals: [k=v]}]\n", "settings-"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			mw, ds := kustomized(t, parsed(t, hello), tt.edit)
			if diff := cmp.Diff(ds, mw); diff != "" {
				t.Errorf("the ManagedWorkload's template (+) is not the DaemonSet's (-):\n%s", diff)
			}
			data, err := yaml.Marshal(mw)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(data), tt.want) {
				t.Errorf("no %q in\n%s", tt.want, data)
			}
		})
	}
}

// keyedList is a list of a Pod template whose elements have a key.
type keyedList struct {
	path []string // of the list; elements of lists on the way are the ones with the parents' keys
	keys []string // of the lists on the way, and of this one
	kind reflect.Kind
}

// keyedLists are those of a type, by the tags of its fields.
func keyedLists(of reflect.Type, path, keys []string) (found []keyedList) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		below, key := path, f.Tag.Get("patchMergeKey")
		if name != "" {
			below = append(slices.Clone(path), name)
		}
		switch {
		case name == "ephemeralContainers" || name == "ownerReferences":
			// not in a template
		case f.Type.Kind() == reflect.Slice && key != "":
			all := append(slices.Clone(keys), key)
			found = append(found, keyedList{below, all, keyKind(f.Type.Elem(), key)})
			found = append(found, keyedLists(f.Type.Elem(), below, all)...)
		case f.Type.Kind() != reflect.Slice && f.Type.Kind() != reflect.Map:
			found = append(found, keyedLists(f.Type, below, keys)...)
		}
	}
	return found
}

func keyKind(element reflect.Type, key string) reflect.Kind {
	for f := range element.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == key {
			return f.Type.Kind()
		}
	}
	return reflect.String
}

// element returns one with a key.
func (l keyedList) element(key string, number int) map[string]any {
	if l.kind == reflect.Int32 {
		return map[string]any{key: int64(number)}
	}
	return map[string]any{key: fmt.Sprint("e", number)}
}

// in wraps a list into a template.
func (l keyedList) in(list []any) map[string]any {
	var value any = list
	keys := l.keys[:len(l.keys)-1]
	for i, name := range slices.Backward(l.path) {
		value = map[string]any{name: value}
		if i > 0 && listNames[l.path[i-1]] {
			parent := value.(map[string]any)
			parent[keys[len(keys)-1]], keys = "parent", keys[:len(keys)-1]
			value = []any{parent}
		}
	}
	return value.(map[string]any)
}

// listNames are lists that hold keyed lists.
var listNames = map[string]bool{"containers": true, "initContainers": true}

// keptWhole are keyed lists that kustomize replaces in a DaemonSet, too: its own schema is that
// of an older Kubernetes. Templates with them are refused (docs/fields.md).
var keptWhole = map[string]bool{"spec.schedulingGates": true, "spec.resourceClaims": true}

// A patch that names one element of a keyed list changes that one and keeps the others.
func TestKustomizeMergesEveryKeyedList(t *testing.T) {
	lists := keyedLists(reflect.TypeFor[corev1.PodTemplateSpec](), nil, nil)
	if len(lists) < 15 {
		t.Fatalf("only %d keyed lists were found", len(lists))
	}
	for _, l := range lists {
		path := strings.Join(l.path, ".")
		t.Run(path, func(t *testing.T) {
			if keptWhole[path] {
				t.Skip("replaced in a DaemonSet, too")
			}
			key := l.keys[len(l.keys)-1]
			first, second, patched := l.element(key, 1), l.element(key, 2), l.element(key, 1)
			first["note"], patched["note"] = "before", "after"
			patch, err := yaml.Marshal(map[string]any{"template": l.in([]any{patched})})
			if err != nil {
				t.Fatal(err)
			}
			edit := "patches:\n"
			for _, target := range []string{
				"apiVersion: managedworkload.dev/v1alpha1\nkind: ManagedWorkload\nmetadata: {name: mw}\n",
				"apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: ds}\n",
			} {
				text := target + "spec:\n" + indented(string(patch), "  ")
				edit += "- patch: |\n" + indented(text, "    ")
			}
			mw, ds := kustomized(t, l.in([]any{first, second}), edit)
			if diff := cmp.Diff(l.in([]any{patched, second}), mw); diff != "" {
				t.Errorf("a patch of one element (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(ds, mw); diff != "" {
				t.Errorf("the ManagedWorkload's template (+) is not the DaemonSet's (-):\n%s", diff)
			}
		})
	}
}

func indented(text, by string) (all string) {
	for line := range strings.Lines(text) {
		all += by + line
	}
	return all
}

// everything sets each string of a value, and makes one element of each list and pointer.
func everything(v reflect.Value, text string) {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		everything(v.Elem(), text)
	case kind == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		everything(v.Index(0), text)
	case kind == reflect.String:
		v.SetString(text)
	case kind == reflect.Struct && v.Type().PkgPath() == reflect.TypeFor[corev1.PodSpec]().PkgPath():
		for _, field := range v.Fields() {
			everything(field, text)
		}
	}
}

// Every ConfigMap, Secret, ServiceAccount, PriorityClass and RuntimeClass that a template
// names is found by the name that kustomize gives it.
func TestKustomizeFollowsEveryReference(t *testing.T) {
	var before corev1.PodTemplateSpec
	everything(reflect.ValueOf(&before).Elem(), "it")
	before.Spec.EphemeralContainers = nil
	mw, ds := kustomized(t, before, `namePrefix: a-
configMapGenerator: [{name: it, literals: [k=v]}]
secretGenerator: [{name: it, literals: [k=v]}]
`)
	var after, daemonSet corev1.PodTemplateSpec
	convert(t, mw, &after)
	convert(t, ds, &daemonSet)
	for _, ref := range objects.Of(&after.Spec) {
		if !strings.HasPrefix(ref.Name, "a-it-") {
			t.Errorf("a %s is still named %q", ref.Kind, ref.Name)
		}
	}
	type names struct{ ServiceAccount, DeprecatedServiceAccount, PriorityClass, RuntimeClass string }
	got := names{after.Spec.ServiceAccountName, after.Spec.DeprecatedServiceAccount, after.Spec.PriorityClassName, *after.Spec.RuntimeClassName}
	if want := (names{"a-it", "a-it", "a-it", "a-it"}); got != want {
		t.Errorf("names %+v, want %+v", got, want)
	}
	// What kustomize follows in a DaemonSet only: claims, which a template here cannot have.
	// What it follows here only: the deprecated name and the RuntimeClass.
	for i := range daemonSet.Spec.Volumes {
		daemonSet.Spec.Volumes[i].PersistentVolumeClaim = after.Spec.Volumes[i].PersistentVolumeClaim
	}
	daemonSet.Spec.DeprecatedServiceAccount, daemonSet.Spec.RuntimeClassName = after.Spec.DeprecatedServiceAccount, after.Spec.RuntimeClassName
	if diff := cmp.Diff(daemonSet, after); diff != "" {
		t.Errorf("the ManagedWorkload's template (+) is not the DaemonSet's (-):\n%s", diff)
	}
}

// A KillRequest names its ManagedWorkload by the name that kustomize gives it.
func TestKustomizeFollowsKillRequests(t *testing.T) {
	built := kustomizedObjects(t, clone, parsed(t, hello), "namePrefix: a-\n")
	for _, o := range built {
		if o.GetKind() != "KillRequest" {
			continue
		}
		name, _, err := unstructured.NestedString(o.Object, "spec", "workloadName")
		if err != nil || name != "a-mw" {
			t.Errorf("the KillRequest is about %q, error %v", name, err)
		}
		return
	}
	t.Error("no KillRequest was built")
}

func convert(t *testing.T, from map[string]any, to any) {
	t.Helper()
	data, err := yaml.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, to); err != nil {
		t.Fatal(err)
	}
}

// The component is used from a clone (above) or by the URL of a repository.
func TestKustomizeByURL(t *testing.T) {
	repository := t.TempDir()
	if err := os.CopyFS(filepath.Join(repository, "config", "kustomize"), os.DirFS("kustomize")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "."},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=test"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	built := kustomizedObjects(t, "file://"+repository+"//config/kustomize?ref=main", parsed(t, hello),
		"patches: [{patch: '{apiVersion: managedworkload.dev/v1alpha1, kind: ManagedWorkload, metadata: {name: mw}, spec: {template: {spec: {containers: [{name: hello, image: new}]}}}}'}]\n")
	containers, _, err := unstructured.NestedSlice(templateOf(t, built, "ManagedWorkload"), "spec", "containers")
	if err != nil || len(containers) != 2 {
		t.Errorf("%d containers, error %v", len(containers), err)
	}
}
