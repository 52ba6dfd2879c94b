// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const system = "managedworkload-system"

// kustomization is config/ as one user installs it.
type kustomization struct {
	// base is a folder of config/.
	base string
	// edit are lines of the kustomization.
	edit string
	// components are folders of config/components.
	components []string
	// namespace is where all is installed; empty means managedworkload-system.
	namespace string
}

// addresses is what docs/operations.md has a user add for the component network-policy.
const addresses = `configMapGenerator:
- name: managedworkload-addresses
  literals: [nodes=10.0.0.0/16, control-plane=192.0.2.7/32]
  options: {annotations: {config.kubernetes.io/local-config: "true"}}
`

// moreAddresses is what it has a user add who has more of them.
const moreAddresses = `patches:
- target: {kind: NetworkPolicy, name: managedworkload-manager}
  patch: |
    - {op: add, path: /spec/ingress/0/from/-, value: {ipBlock: {cidr: "fd00::/64"}}}
`

// kustomizations are all ways to install config/ that are tested, by name.
func kustomizations(t *testing.T) map[string]kustomization {
	t.Helper()
	all := map[string]kustomization{
		"with a namePrefix":    {base: "default", edit: "namePrefix: team-a-\n"},
		"with a nameSuffix":    {base: "default", edit: "nameSuffix: -blue\n"},
		"in another namespace": {base: "default", edit: "namespace: other-system\n", namespace: "other-system"},
	}
	for _, base := range append(folders(t, "overlays"), "default") {
		all[base] = kustomization{base: base}
	}
	var components []string
	for _, path := range folders(t, "components") {
		component := filepath.Base(path)
		components = append(components, component)
		all["with "+component] = kustomization{base: "default", components: []string{component}}
	}
	all["production with network-policy"] = kustomization{base: "overlays/production", components: []string{"network-policy"}}
	all["with all components"] = kustomization{base: "default", components: components}
	all["with everything"] = kustomization{
		base: "default", components: components, edit: "namePrefix: team-a-\nnamespace: other-system\n", namespace: "other-system",
	}
	return all
}

// folders are those of a folder of config/.
func folders(t *testing.T, parent string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d folders in %s, error %v", len(entries), parent, err)
	}
	for _, entry := range entries {
		found = append(found, filepath.Join(parent, entry.Name()))
	}
	return found
}

// rendered are the kustomizations that were built before: the CRDs take their time.
var rendered = map[string][]*unstructured.Unstructured{}

// render returns what kubectl apply -k would apply. Callers only read it.
func (k kustomization) render(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	key := fmt.Sprintf("%+v", k)
	if rendered[key] == nil {
		objects, err := k.build(t)
		if err != nil {
			t.Fatal(err)
		}
		rendered[key] = objects
	}
	return rendered[key]
}

// build writes the kustomization into a folder, unless it is one of config/, and builds it.
func (k kustomization) build(t *testing.T) ([]*unstructured.Unstructured, error) {
	t.Helper()
	if k.edit == "" && len(k.components) == 0 {
		return build(k.base)
	}
	dir := t.TempDir()
	text := k.edit + "resources: [" + relative(t, dir, k.base) + "]\ncomponents:\n"
	for _, component := range k.components {
		text += "- " + relative(t, dir, filepath.Join("components", component)) + "\n"
	}
	if slices.Contains(k.components, "network-policy") && !strings.Contains(k.edit, "configMapGenerator") {
		text += addresses
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return build(dir)
}

// relative is the path of a folder of config/: kustomize takes no absolute ones.
func relative(t *testing.T, dir, folder string) string {
	t.Helper()
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	if folder, err = filepath.Rel(dir, folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

func build(dir string) (objects []*unstructured.Unstructured, err error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", dir, err)
	}
	for _, resource := range resources.Resources() {
		content, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("build %s: %w", dir, err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("build %s: %w", dir, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// only is the only object of a kind whose name contains a text, as a type.
func only[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == kind && strings.Contains(object.GetName(), name) {
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s named %s", len(found), kind, name)
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found[0].Object, typed, true); err != nil {
		t.Fatal(err)
	}
	return typed
}

// Whatever a user adds, all of it is in one namespace, refers to itself by the names it
// has then, and runs one image, whose tag is the version.
func TestRendered(t *testing.T) {
	want := "managedworkload.dev/managedworkload:" + version(t)
	for name, k := range kustomizations(t) {
		t.Run(name, func(t *testing.T) {
			objects := k.render(t)
			accounts := map[string]bool{}
			for _, object := range objects {
				switch namespace := object.GetNamespace(); {
				case namespace != "" && namespace != k.installed():
					t.Errorf("%s %s is in namespace %s", object.GetKind(), object.GetName(), namespace)
				case object.GetKind() == "Namespace" && object.GetName() != k.installed():
					t.Errorf("namespace %s", object.GetName())
				case object.GetKind() == "ServiceAccount":
					accounts[object.GetName()] = true
				case object.GetKind() == "ConfigMap" && object.GetLabels()["grafana_dashboard"] == "":
					t.Errorf("a ConfigMap %s that is for kustomize only", object.GetName())
				}
			}
			images := map[string]bool{}
			for _, spec := range podSpecs(t, objects) {
				if !accounts[spec.ServiceAccountName] {
					t.Errorf("no ServiceAccount %s", spec.ServiceAccountName)
				}
				for _, c := range spec.Containers {
					images[c.Image] = true
				}
			}
			if got := slices.Collect(maps.Keys(images)); !slices.Equal(got, []string{want}) {
				t.Errorf("images %q, want %q", got, want)
			}
		})
	}
}

func (k kustomization) installed() string {
	if k.namespace != "" {
		return k.namespace
	}
	return system
}

// podSpecs are those of the Deployment and the DaemonSets.
func podSpecs(t *testing.T, objects []*unstructured.Unstructured) (specs []*corev1.PodSpec) {
	t.Helper()
	for _, object := range objects {
		content, found, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
		if err != nil || !found {
			continue
		}
		spec := &corev1.PodSpec{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, spec, true); err != nil {
			t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
		specs = append(specs, spec)
	}
	if len(specs) != 2 && len(specs) != 3 {
		t.Fatalf("%d objects with a Pod's template", len(specs))
	}
	return specs
}

// A network policy without addresses would cut the API server off from the webhook: it is
// not built.
func TestNetworkPolicyNeedsAddresses(t *testing.T) {
	k := kustomization{base: "default", components: []string{"network-policy"}, edit: "configMapGenerator: []\n"}
	if _, err := k.build(t); err == nil || !strings.Contains(err.Error(), "managedworkload-addresses") {
		t.Errorf("error %v", err)
	}
}
