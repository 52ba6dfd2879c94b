// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var (
	// api reaches a real API server that refuses fields it does not know; nil when its
	// binaries are not there.
	api client.Client
	// whyNoAPI says what is missing.
	whyNoAPI string
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	flag.Parse()
	assets := cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join("..", "bin"))
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); testing.Short() || err != nil {
		whyNoAPI = "needs an API server: run make assets, and go test without -short"
		return m.Run()
	}
	ctrl.SetLogger(logr.Discard())
	env := &envtest.Environment{BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{"testdata/crds.yaml"}, ErrorIfCRDPathMissing: true}
	cfg, err := env.Start()
	if err == nil {
		cfg.QPS, cfg.Burst = 500, 500
		api, err = client.New(cfg, client.Options{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", errors.Join(err, env.Stop()))
		return 1
	}
	api = client.WithFieldValidation(api, metav1.FieldValidationStrict)
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		return 1
	}
	return code
}

// An API server takes all of it, in the order in which kubectl apply -k sends it. What is of
// the Prometheus operator and of cert-manager it compares with stubs of their CRDs, written by
// hand (testdata/crds.yaml): not with what those products would take.
func TestAPIServerTakes(t *testing.T) {
	if api == nil {
		t.Skip(whyNoAPI)
	}
	all := kustomizations(t)
	all["samples"] = kustomization{base: "samples", edit: "namespace: default\n"}
	for _, name := range append([]string{"default"}, without(all, "default")...) {
		t.Run(name, func(t *testing.T) {
			for _, object := range all[name].render(t) {
				if err := apply(t.Context(), object.DeepCopy()); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

func without(all map[string]kustomization, skipped string) (names []string) {
	for name := range all {
		if name != skipped {
			names = append(names, name)
		}
	}
	return names
}

// The stubs of other products' CRDs have no field that takes everything: with them an API
// server refuses what config/components misspells.
func TestAPIServerRefusesWhatItDoesNotKnow(t *testing.T) {
	if api == nil {
		t.Skip(whyNoAPI)
	}
	for _, object := range (kustomization{base: "default", components: []string{"prometheus", "cert-manager"}}).render(t) {
		if _, found := object.Object["spec"]; !found {
			continue
		}
		object = object.DeepCopy()
		if err := unstructured.SetNestedField(object.Object, "x", "spec", "misspelt"); err != nil {
			t.Fatal(err)
		}
		if err := apply(t.Context(), object, client.DryRunAll); err == nil {
			t.Errorf("%s %s: an unknown field was taken", object.GetKind(), object.GetName())
		}
	}
}

// apply does what kubectl apply --server-side does, and waits until a CRD is served.
func apply(ctx context.Context, object *unstructured.Unstructured, opts ...client.ApplyOption) error {
	opts = append(opts, client.FieldOwner("kubectl"), client.ForceOwnership)
	if err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), opts...); err != nil {
		return err
	}
	if object.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // null at first
		return slices.ContainsFunc(conditions, func(condition any) bool {
			c, ok := condition.(map[string]any)
			return ok && c["type"] == "Established" && c["status"] == string(corev1.ConditionTrue)
		}), nil
	})
}
