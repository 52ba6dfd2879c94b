// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/managedworkload/managedworkload/api/placement"
	"github.com/managedworkload/managedworkload/api/template"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/internal/revision"
)

var (
	// api reaches a real API server; nil when its binaries are not there.
	api client.WithWatch
	// kubeconfig is the file with which the plugin reaches it.
	kubeconfig string
	whyNoAPI   string
)

func TestMain(m *testing.M) {
	os.Exit(runSuite(m))
}

func runSuite(m *testing.M) int {
	flag.Parse()
	silence()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join("..", "bin")
	}
	if _, err := os.Stat(filepath.Join(assets, "kube-apiserver")); err != nil || testing.Short() {
		whyNoAPI = "needs an API server: not with -short, and not without KUBEBUILDER_ASSETS or make tools"
		return m.Run()
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: assets, CRDDirectoryPaths: []string{filepath.Join("..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
	}
	stop, err := startAPI(env)
	defer stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	return m.Run()
}

func startAPI(env *envtest.Environment) (stop func(), err error) {
	stop = func() {
		if err := env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
		_ = os.Remove(kubeconfig)
	}
	config, err := env.Start()
	if err != nil {
		return stop, err
	}
	scheme := runtime.NewScheme()
	file, errFile := os.CreateTemp("", "mw-cli-")
	if err := errors.Join(errFile, clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return stop, err
	}
	kubeconfig = file.Name()
	_, err = file.Write(env.KubeConfig)
	if err := errors.Join(err, file.Close()); err != nil {
		return stop, err
	}
	api, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	return stop, err
}

// result is what a run of the plugin came to.
type result struct {
	out, err string
	code     int
}

// run runs the plugin in a namespace.
func run(t *testing.T, namespace, stdin string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	all := append([]string{"kubectl-mw", "--kubeconfig", kubeconfig, "-n", namespace}, args...)
	code := New(all, "v0", genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut}).Run(t.Context())
	return result{out.String(), errOut.String(), code}
}

// want compares the outcome of a run; err is a part of the error output.
func (r result) want(t *testing.T, code int, out, err string) {
	t.Helper()
	if r.code != code || r.out != out || !strings.Contains(r.err, err) || err == "" && r.err != "" {
		t.Errorf("exit code %d, want %d\noutput %q\nwant   %q\nerror  %q\nwant   %q", r.code, code, r.out, out, r.err, err)
	}
}

// newNamespace makes a namespace for one test.
func newNamespace(t *testing.T) string {
	t.Helper()
	if api == nil {
		t.Skip(whyNoAPI)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cli-"}}
	create(t, ns)
	return ns.Name
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func templateOf(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}
}

// web makes a ManagedWorkload.
func web(t *testing.T, namespace, image string) *v1alpha1.ManagedWorkload {
	t.Helper()
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: v1alpha1.ManagedWorkloadSpec{Template: templateOf(image)}}
	create(t, mw)
	return mw
}

func owned(mw *v1alpha1.ManagedWorkload, name, hash string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: mw.Namespace, Name: name,
		Labels: map[string]string{v1alpha1.LabelWorkload: placement.LabelValue(mw.Name), v1alpha1.LabelRevision: hash},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "ManagedWorkload", Name: mw.Name, UID: mw.UID, Controller: ptr.To(true),
		}},
	}
}

// revisionOf makes a revision as the manager does, of a template that admission changes.
func revisionOf(t *testing.T, mw *v1alpha1.ManagedWorkload, number int64, image string, admission ...func(*corev1.PodTemplateSpec)) *v1alpha1.ManagedWorkloadRevision {
	t.Helper()
	user := templateOf(image)
	template.SetDefaults(&user)
	admitted := user.DeepCopy()
	for _, change := range admission {
		change(admitted)
	}
	spec, err := revision.Spec(&user, admitted)
	if err != nil {
		t.Fatal(err)
	}
	spec.Revision, spec.RolledOut = number, number == 1
	hash := template.Hash(&user)
	r := &v1alpha1.ManagedWorkloadRevision{ObjectMeta: owned(mw, placement.RevisionName(mw.Name, hash), hash), Spec: spec}
	create(t, r)
	return r
}

// nodeWorkloadOf makes a NodeWorkload that runs a revision.
func nodeWorkloadOf(t *testing.T, mw *v1alpha1.ManagedWorkload, node string, r *v1alpha1.ManagedWorkloadRevision) *v1alpha1.NodeWorkload {
	t.Helper()
	hash := r.Labels[v1alpha1.LabelRevision]
	nw := &v1alpha1.NodeWorkload{
		ObjectMeta: owned(mw, placement.NodeWorkloadName(mw.Name, node), hash),
		Spec:       v1alpha1.NodeWorkloadSpec{NodeName: node, Template: r.Spec.Template},
	}
	create(t, nw)
	nw.Status = v1alpha1.NodeWorkloadStatus{ObservedGeneration: nw.Generation, TemplateHash: hash, Phase: corev1.PodRunning, Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()},
	}}
	update(t, nw)
	return nw
}

// update writes a status.
func update(t *testing.T, object client.Object) {
	t.Helper()
	if err := api.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// reread reads an object again.
func reread[T client.Object](t *testing.T, object T) T {
	t.Helper()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	return object
}
