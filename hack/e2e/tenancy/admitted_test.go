// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers"
	"github.com/managedworkload/managedworkload/controllers/webhook"
)

// runManager runs the manager with its own token until the test has ended, with its
// webhook or without.
func runManager(t *testing.T, i installation, served bool) {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: i.account("manager")}}
	must(t, admin.SubResource("token").Create(t.Context(), sa, request))
	config, server := clientcmdapi.NewConfig(), stack.RESTConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.Host, CertificateAuthorityData: server.CAData, CertificateAuthority: server.CAFile}
	config.AuthInfos["manager"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "manager"}
	config.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*config, file))
	hook := webhook.Options{Name: i.account("webhook"), CertificateDir: t.TempDir(), RotateCertificates: true}
	if served {
		hook.BindAddress = stack.WebhookAddress()
	}
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, prefix+" "+args)
	}, funcr.Options{LogTimestamp: true})
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), log))
	ended := make(chan error, 1)
	go func() {
		ended <- controllers.Run(ctx, controllers.Options{
			Shared:  options.Shared{Kubeconfig: file, Namespace: i.namespace, MetricsBindAddress: "0", HealthProbeBindAddress: "0"},
			Load:    controllers.DefaultLoad,
			Webhook: hook,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() {
			t.Logf("the manager's log:\n%s", strings.Join(lines, "\n"))
		}
	})
}

// createNode makes a Node that has had a shim.
func createNode(t *testing.T, i installation, name string, labels map[string]string) {
	t.Helper()
	create(t, lease(i.namespace, v1alpha1.LeaseNamePrefix+name), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
}

// nodeWorkloads are those of the tenant by node.
func nodeWorkloads(ctx context.Context) (map[string]*v1alpha1.NodeWorkload, error) {
	list := &v1alpha1.NodeWorkloadList{}
	if err := admin.List(ctx, list, client.InNamespace(tenant)); err != nil {
		return nil, err
	}
	found := map[string]*v1alpha1.NodeWorkload{}
	for i := range list.Items {
		found[list.Items[i].Spec.NodeName] = &list.Items[i]
	}
	return found, nil
}

// onNode waits for the tenant's NodeWorkload of a node.
func onNode(t *testing.T, node string) (found *v1alpha1.NodeWorkload) {
	t.Helper()
	await(t, "a NodeWorkload on "+node, func(ctx context.Context) error {
		all, err := nodeWorkloads(ctx)
		if found = all[node]; err == nil && found == nil {
			err = errors.New("there is none")
		}
		return err
	})
	return found
}

// says waits until a condition of a ManagedWorkload contains words.
func says(t *testing.T, mw *v1alpha1.ManagedWorkload, kind, words string) {
	t.Helper()
	await(t, kind+" says "+words, func(ctx context.Context) error {
		now := &v1alpha1.ManagedWorkload{}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(mw), now); err != nil {
			return err
		}
		c := meta.FindStatusCondition(now.Status.Conditions, kind)
		if c == nil || !strings.Contains(c.Reason+": "+c.Message, words) {
			return fmt.Errorf("it says %+v", c)
		}
		return nil
	})
}

// What runs is what the API server's own admission makes of a template, with the manager's
// own rights; a namespace that becomes stricter keeps what runs.
func TestAdmissionActsAsOnAPod(t *testing.T) {
	i := installation{namespace: "managedworkload-system"}
	i.apply(t)
	node := func(name string, labels map[string]string) { createNode(t, i, name, labels) }
	pool := map[string]string{"pool": "tenants"}
	node("p1", pool)
	node("other", nil)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: tenant, Annotations: map[string]string{"scheduler.alpha.kubernetes.io/node-selector": "pool=tenants"},
	}}
	create(t, ns, &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "defaults"}, Spec: corev1.LimitRangeSpec{
		Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}},
	}})
	await(t, "the namespace's account", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: tenant, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() { letGo(t) }) // when the manager has ended
	runManager(t, i, false)
	mw := managedWorkload("web")
	create(t, mw)
	says(t, mw, v1alpha1.ConditionAccepted, "the template is accepted")
	before := onNode(t, "p1")
	c := before.Spec.Template.Spec.Containers[0]
	if c.Resources.Limits.Memory().String() != "64Mi" || c.ImagePullPolicy != corev1.PullAlways || before.Spec.Template.Spec.NodeSelector["pool"] != "tenants" {
		t.Errorf("limits %v, policy %s, selector %v", c.Resources.Limits, c.ImagePullPolicy, before.Spec.Template.Spec.NodeSelector)
	}
	label(t, "enforce", `"restricted"`)
	says(t, mw, v1alpha1.ConditionAccepted, "because admission would refuse it now: ")
	node("p2", pool)
	says(t, mw, v1alpha1.ConditionStalled, "NoLongerAdmitted: 1 node without the current template")
	found, err := nodeWorkloads(t.Context())
	must(t, err)
	if len(found) != 1 || cmp.Diff(before.Spec, found["p1"].Spec) != "" {
		t.Errorf("NodeWorkloads %v, want the one of before as it was", found)
	}
	label(t, "enforce", "null")
	await(t, "a NodeWorkload on both nodes of the pool", func(ctx context.Context) error {
		found, err := nodeWorkloads(ctx)
		if err == nil && (found["p1"] == nil || found["p2"] == nil) {
			err = fmt.Errorf("there are %d", len(found))
		}
		return err
	})
	must(t, admin.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "p2"}}, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pool":null}}}`))))
	await(t, "the end of the NodeWorkload on a node that left the pool", func(ctx context.Context) error {
		found, err := nodeWorkloads(ctx)
		if nw := found["p2"]; err == nil && nw != nil && nw.DeletionTimestamp.IsZero() {
			err = errors.New("it stays")
		}
		return err
	})

	quota := func(name string, counted corev1.ResourceName, hard int64) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name}}
		q.Spec.Hard = corev1.ResourceList{counted: *resource.NewQuantity(hard, resource.DecimalSI)}
		create(t, q)
		return q
	}
	raise := func(q *corev1.ResourceQuota, hard string) {
		must(t, admin.Patch(t.Context(), q, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hard":{`+hard+`}}}`))))
	}
	pods := quota("pods", corev1.ResourcePods, 10)
	second := managedWorkload("second")
	create(t, second)
	says(t, second, v1alpha1.ConditionAccepted, "QuotaDoesNotCount: ResourceQuota pods limits the Pods of this namespace")
	counted := quota("nodeworkloads", "count/nodeworkloads.managedworkload.dev", 0)
	awaitCount(t, counted)
	says(t, second, v1alpha1.ConditionAccepted, "the template is accepted")
	await(t, "an event about the quota in the way", func(ctx context.Context) error {
		events, err := stack.Kubectl(ctx, "events", "-n", tenant, "--for=mw/second")
		if err == nil && !strings.Contains(events, "exceeded quota: nodeworkloads") {
			err = errors.New(events)
		}
		return err
	})
	raise(counted, `"count/nodeworkloads.managedworkload.dev":"10"`)
	await(t, "the second NodeWorkload of the pool's node", func(ctx context.Context) error {
		list := &v1alpha1.NodeWorkloadList{}
		err := admin.List(ctx, list, client.InNamespace(tenant), client.MatchingLabels{v1alpha1.LabelWorkload: "second"})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d", len(list.Items))
		}
		return err
	})
	// A full quota of Pods refuses a new template as it refuses a Pod.
	raise(pods, `"pods":"0"`)
	await(t, "the quota is in force", func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(pods), pods); err != nil {
			return err
		}
		if hard := pods.Status.Hard[corev1.ResourcePods]; !hard.IsZero() {
			return fmt.Errorf("it allows %s", hard.String())
		}
		return nil
	})
	third := managedWorkload("third")
	create(t, third)
	says(t, third, v1alpha1.ConditionAccepted, "InvalidTemplate: pods \"third\" is forbidden: exceeded quota: pods")
}

// awaitCount waits until kube-controller-manager says how much of the quota is used. It finds
// new kinds every 30 s, and counts again for a quota that was there only when the quota changes
// or after 5 min: the quota is changed until it is counted.
func awaitCount(t *testing.T, q *corev1.ResourceQuota) {
	t.Helper()
	changes := 0
	await(t, "the use of quota "+q.Name, func(ctx context.Context) error {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) {
			return errors.New("not looked at")
		}
		if len(q.Status.Used) == len(q.Spec.Hard) {
			return nil
		}
		changes++
		return errors.Join(errors.New("not counted"), admin.Patch(ctx, q, client.RawPatch("application/merge-patch+json",
			fmt.Appendf(nil, `{"spec":{"hard":{"count/services":"%d"}}}`, changes))))
	})
}

// label sets or removes a PodSecurity label of the tenant's namespace; value is JSON.
func label(t *testing.T, mode, value string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}
	must(t, admin.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/`+mode+`":`+value+`}}}`))))
}

// letGo lets what is left of the tenant's workloads go: no shim ends them, and the manager
// has ended.
func letGo(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	found, workloads := &v1alpha1.NodeWorkloadList{}, &v1alpha1.ManagedWorkloadList{}
	if err := errors.Join(admin.List(ctx, found, client.InNamespace(tenant)), admin.List(ctx, workloads, client.InNamespace(tenant))); err != nil {
		t.Error(err)
	}
	var left []client.Object
	for i := range found.Items {
		left = append(left, &found.Items[i])
	}
	for i := range workloads.Items {
		left = append(left, &workloads.Items[i])
	}
	for _, o := range left {
		err := admin.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
		if err = errors.Join(client.IgnoreNotFound(err), client.IgnoreNotFound(admin.Delete(ctx, o))); err != nil {
			t.Error(err)
		}
	}
}
