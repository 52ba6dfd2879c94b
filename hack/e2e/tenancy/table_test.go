// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const tenant = "tenant"

// attempt is something that everybody tries.
type attempt struct {
	try func(ctx context.Context, c client.Client) error
	// allowed are those who may; everybody else is refused.
	allowed []string
	// words are what a refusal says to some of them.
	words map[string]string
}

// Refusals that say what to do instead.
const (
	notYours   = "only the manager of ManagedWorkloads creates these objects; create a ManagedWorkload"
	immutable  = "the templates of a ManagedWorkloadRevision are immutable"
	notContent = "only the manager may change spec, labels and annotations; change the ManagedWorkload"
	notEnding  = "only the manager may change owners and finalizers"
	notStatus  = "only the manager and the shim of its own node may write the status of a NodeWorkload"
	noPods     = "may not create pods in namespace tenant"
	ownLeases  = "a shim may write its own leases only"
	ownNode    = "a shim may write its own Node only, and only where it is labelled managedworkload.dev/registered-by=shim"
	ownEvents  = "a shim may write events about NodeWorkloads and its own Node only, with its node as their source"
	ownToken   = "a shim may renew its own token only, bound to its own Node and for a day at most"
	dryOnly    = "the manager of ManagedWorkloads may create Pods as a dry run only"
	boundOnly  = "the manager of ManagedWorkloads may create tokens that are bound to a Node, for an hour at most, and no others"
	noManagers = "the manager of ManagedWorkloads may create no tokens of managers, its own account among them"
	noShims    = "the manager of ManagedWorkloads may create no tokens of shims"
	notItsNode = "cannot impersonate"
	unbound    = "a shim must use a service account token that is bound to its node"
)

// The table: however config/ is installed, each may do what is listed, and no more.
func TestWhoMayDoWhat(t *testing.T) {
	tried, wrong := 0, 0
	for name, i := range map[string]installation{
		"as it is":             {namespace: "managedworkload-system"},
		"with a namePrefix":    {edit: "namePrefix: team-a-\n", prefix: "team-a-", namespace: "managedworkload-system"},
		"with a nameSuffix":    {edit: "nameSuffix: -blue\n", suffix: "-blue", namespace: "managedworkload-system"},
		"in another namespace": {edit: "namespace: other-system\n", namespace: "other-system"},
	} {
		t.Run(name, func(t *testing.T) {
			i.objectsRoles = true
			i.apply(t)
			arrange(t, i)
			clients := people(t, i)
			await(t, "the policies are enforced", func(ctx context.Context) error { return unlessRefused(ctx, i, clients) })
			for what, a := range attempts(t, i) {
				for who, c := range clients {
					tried++
					wrong += judge(t, what, who, a, a.try(t.Context(), c))
				}
			}
		})
	}
	t.Logf("tried: %d, wrong: %d", tried, wrong)
	if tried == 0 {
		t.Error("nothing was tried")
	}
}

// unlessRefused fails until every policy holds.
func unlessRefused(ctx context.Context, i installation, clients map[string]client.Client) error {
	owner := clients[anOwner]
	if err := owner.Create(ctx, nodeWorkload("new", "n1"), client.DryRunAll); err == nil || !strings.Contains(err.Error(), notYours) {
		return errors.Join(errors.New("an owner may create a NodeWorkload"), err)
	}
	mw := managedWorkload("web")
	mw.Status.Summary = "x"
	if err := patch(ctx, owner.Status(), mw, `{"status":{"summary":"x"}}`); err == nil {
		return errors.New("an owner may write the status of a ManagedWorkload")
	}
	if err := tokenOf(tenant, "owner", "", "", 3600)(ctx, clients[aManager]); err == nil {
		return errors.New("the manager may create any token")
	}
	if err := clients[aShim].Create(ctx, lease(i.namespace, "managedworkload-shim-n2"), client.DryRunAll); err == nil {
		return errors.New("a shim may write another's lease")
	}
	return nil
}

// judge returns 1 when an attempt came out wrong.
func judge(t *testing.T, what, who string, a attempt, err error) int {
	t.Helper()
	allowed := slices.Contains(a.allowed, who)
	switch {
	case allowed && err != nil:
		t.Errorf("%s, %s: refused: %v", who, what, err)
	case !allowed && err == nil:
		t.Errorf("%s, %s: allowed", who, what)
	case !allowed && !refusal(err):
		t.Errorf("%s, %s: no refusal: %v", who, what, err)
	case !allowed && !strings.Contains(err.Error(), a.words[who]):
		t.Errorf("%s, %s: refused without %q: %v", who, what, a.words[who], err)
	default:
		return 0
	}
	return 1
}

// refusal is by RBAC or by a policy, and not by something else on the way.
func refusal(err error) bool {
	return strings.Contains(err.Error(), "cannot ") || strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// arrange makes what is there before anybody tries.
func arrange(t *testing.T, i installation) {
	t.Helper()
	registered := map[string]string{"managedworkload.dev/registered-by": "shim", "a": "b"}
	web := managedWorkload("web")
	create(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3", Labels: registered}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n4", Labels: registered}},
		web)
	await(t, "the namespace's account", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: tenant, Name: "default"}, &corev1.ServiceAccount{})
	})
	owned := nodeWorkload("web-n1", "n1")
	owned.Finalizers = []string{v1alpha1.Finalizer, "example.com/other"}
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(web, v1alpha1.GroupVersion.WithKind("ManagedWorkload"))}
	create(t, revision(web), owned, nodeWorkload("web-n2", "n2"), lease(i.namespace, "managedworkload-shim-n1"), lease(corev1.NamespaceNodeLease, "n1"), lease(corev1.NamespaceNodeLease, "n3"))
}

func managedWorkload(name string) *v1alpha1.ManagedWorkload {
	mw := &v1alpha1.ManagedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name}}
	mw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "image:1"}}
	return mw
}

// revision is the first of a ManagedWorkload.
func revision(of *v1alpha1.ManagedWorkload) *v1alpha1.ManagedWorkloadRevision {
	r := &v1alpha1.ManagedWorkloadRevision{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: of.Name + "-1"}}
	r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(of, v1alpha1.GroupVersion.WithKind("ManagedWorkload"))}
	r.Spec.Revision, r.Spec.Template = 1, *of.Spec.Template.DeepCopy()
	return r
}

func nodeWorkload(name, node string) *v1alpha1.NodeWorkload {
	nw := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name}}
	nw.Spec.NodeName = node
	nw.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "image:1"}}
	return nw
}

func lease(namespace, name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "image:1"}},
	}}
}

type patcher interface {
	Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error
}

// patch patches a subresource as a dry run.
func patch(ctx context.Context, c patcher, o client.Object, merge string) error {
	return c.Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(merge)), client.DryRunAll)
}

// change patches an object as a dry run.
func change(o client.Object, merge string) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, o.DeepCopyObject().(client.Object), //nolint:forcetypeassert // a copy
			client.RawPatch("application/merge-patch+json", []byte(merge)), client.DryRunAll)
	}
}

func creation(o client.Object, opts ...client.CreateOption) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, o.DeepCopyObject().(client.Object), opts...) //nolint:forcetypeassert // a copy
	}
}

// status updates the status of an object from an administrator's read of it.
func status(o client.Object, edit func(client.Object)) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		current := o.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy
		if err := admin.Get(ctx, client.ObjectKeyFromObject(o), current); err != nil {
			return err
		}
		edit(current)
		return c.Status().Update(ctx, current, client.DryRunAll)
	}
}

func tokenOf(namespace, name, kind, to string, seconds int64) func(context.Context, client.Client) error {
	return func(ctx context.Context, c client.Client) error {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(seconds)}}
		if kind != "" {
			request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: to}
		}
		sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		return c.SubResource("token").Create(ctx, sa, request)
	}
}

func eventAbout(kind, apiVersion, namespace, name, host string) *corev1.Event {
	at := namespace
	if at == "" {
		at = "default"
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: at, GenerateName: "e-"},
		InvolvedObject: corev1.ObjectReference{Kind: kind, APIVersion: apiVersion, Namespace: namespace, Name: name},
		Source:         corev1.EventSource{Component: "c", Host: host}, Reason: "R", Message: "m", Type: "Normal",
	}
}

// attempts are by what is tried.
func attempts(t *testing.T, i installation) map[string]attempt {
	t.Helper()
	all := map[string]attempt{}
	for _, part := range []map[string]attempt{aboutNodeWorkloads(), aboutManagedWorkloads(), aboutNodes(), aboutLeases(i), aboutEvents(), aboutPodsAndTokens(i)} {
		maps.Copy(all, part)
	}
	return all
}

func aboutNodeWorkloads() map[string]attempt {
	nw := nodeWorkload("web-n1", "n1")
	words := func(all string) map[string]string {
		return map[string]string{anOwner: all, aBoundOwner: all}
	}
	managers := []string{aManager, anAdministrator}
	known, another := revision(managedWorkload("web")), revision(managedWorkload("other"))
	another.OwnerReferences = nil
	return map[string]attempt{
		"create a revision": {creation(another, client.DryRunAll), managers, words(notYours)},
		"change a revision's template": {
			change(known, `{"spec":{"template":{"spec":{"hostPID":true}}}}`), nil,
			map[string]string{aManager: immutable, anAdministrator: immutable, aCollector: immutable, anOwner: immutable, aBoundOwner: immutable},
		},
		"change a revision's patch": {
			change(known, `{"spec":{"userPatch":"[]"}}`), nil,
			map[string]string{aManager: immutable, anAdministrator: immutable, aCollector: immutable, anOwner: immutable, aBoundOwner: immutable},
		},
		"change a revision's number":    {change(known, `{"spec":{"revision":7}}`), managers, words(notContent)},
		"change a revision's labels":    {change(known, `{"metadata":{"labels":{"a":"b"}}}`), managers, words(notContent)},
		"drop a revision's owner":       {change(known, `{"metadata":{"ownerReferences":null}}`), append(managers, aCollector), words(notEnding)},
		"add a finalizer to a revision": {change(known, `{"metadata":{"finalizers":["example.com/more"]}}`), append(managers, aCollector), words(notEnding)},
		"delete a revision": {func(ctx context.Context, c client.Client) error {
			return c.Delete(ctx, known.DeepCopy(), client.DryRunAll)
		}, append(managers, anOwner, aBoundOwner, aCollector), nil},
		"create a NodeWorkload":                {creation(nodeWorkload("new", "n1"), client.DryRunAll), managers, words(notYours)},
		"change a NodeWorkload's spec":         {change(nw, `{"spec":{"template":{"spec":{"hostPID":true}}}}`), managers, map[string]string{anOwner: notContent, aShim: notContent, aShimAsItsNode: notContent}},
		"shorten a NodeWorkload's end":         {change(nw, `{"spec":{"deletionGracePeriodSeconds":1}}`), managers, words(notContent)},
		"change a NodeWorkload's labels":       {change(nw, `{"metadata":{"labels":{"a":"b"}}}`), managers, words(notContent)},
		"change a NodeWorkload's annotations":  {change(nw, `{"metadata":{"annotations":{"managedworkload.dev/requested-by":"me"}}}`), managers, words(notContent)},
		"drop a NodeWorkload's owner":          {change(nw, `{"metadata":{"ownerReferences":null}}`), append(managers, aCollector), words(notEnding)},
		"drop our finalizer of a NodeWorkload": {change(nw, `{"metadata":{"finalizers":["example.com/other"]}}`), append(managers, aShim, aShimAsItsNode), map[string]string{anOwner: notEnding, anotherShim: notEnding, aCollector: notEnding}},
		"drop another finalizer of it":         {change(nw, `{"metadata":{"finalizers":["managedworkload.dev/containers"]}}`), append(managers, aCollector), map[string]string{anOwner: notEnding, aShim: notEnding, aShimAsItsNode: notEnding}},
		"add a finalizer to a NodeWorkload":    {change(nw, `{"metadata":{"finalizers":["managedworkload.dev/containers","example.com/other","example.com/more"]}}`), append(managers, aCollector), words(notEnding)},
		"write a NodeWorkload as it is": {change(nw, `{}`), append(managers, aCollector, anOwner, aBoundOwner, aShim, anotherShim, aShimAsItsNode, aShimWithoutNode, aStandaloneShim), map[string]string{
			aShimAsAnother: notItsNode, anOwnerAsNode: notItsNode,
		}},
		"write a NodeWorkload's status": {
			status(nw, func(o client.Object) { o.(*v1alpha1.NodeWorkload).Status.Summary = "x" }), append(managers, aShim, aShimAsItsNode),
			map[string]string{anOwner: notStatus, aBoundOwner: notStatus, anotherShim: notStatus, aShimWithoutNode: notStatus, aStandaloneShim: notStatus, aShimAsAnother: notItsNode},
		},
		"write the status of another node's NodeWorkload": {
			status(nodeWorkload("web-n2", "n2"), func(o client.Object) { o.(*v1alpha1.NodeWorkload).Status.Summary = "x" }), append(managers, anotherShim),
			map[string]string{aShim: notStatus, aShimAsItsNode: notStatus, aShimAsAnother: notItsNode},
		},
		"delete a NodeWorkload": {
			func(ctx context.Context, c client.Client) error {
				return c.Delete(ctx, nw.DeepCopy(), client.DryRunAll)
			},
			append(managers, anOwner, aBoundOwner, aCollector), nil,
		},
	}
}

func aboutManagedWorkloads() map[string]attempt {
	mw := managedWorkload("web")
	return map[string]attempt{
		"create a ManagedWorkload":            {creation(managedWorkload("new"), client.DryRunAll), []string{anOwner, aBoundOwner, anAdministrator}, map[string]string{anEditor: noPods, aBoundEditor: noPods}},
		"change a ManagedWorkload's template": {change(mw, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`), []string{anOwner, aBoundOwner, anAdministrator, aManager}, map[string]string{anEditor: noPods, aBoundEditor: noPods, aCollector: noPods}},
		"shorten a ManagedWorkload's end":     {change(mw, `{"metadata":{"annotations":{"managedworkload.dev/deletion-grace-period-seconds":"1"}}}`), []string{anOwner, aBoundOwner, anAdministrator, aManager}, map[string]string{anEditor: noPods, aBoundEditor: noPods}},
		"label a ManagedWorkload":             {change(mw, `{"metadata":{"labels":{"a":"b"}}}`), []string{anOwner, aBoundOwner, anEditor, aBoundEditor, anAdministrator, aManager, aCollector}, nil},
		"write a ManagedWorkload's status": {
			status(mw, func(o client.Object) { o.(*v1alpha1.ManagedWorkload).Status.Summary = "x" }), []string{aManager, anAdministrator},
			map[string]string{anOwner: "only the manager may write the status of a ManagedWorkload"},
		},
		"delete a ManagedWorkload": {
			func(ctx context.Context, c client.Client) error {
				return c.Delete(ctx, mw.DeepCopy(), client.DryRunAll)
			},
			[]string{anOwner, aBoundOwner, anEditor, aBoundEditor, anAdministrator, aCollector}, nil,
		},
	}
}

func aboutNodes() map[string]attempt {
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	taint := `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`
	ready := func(name string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			return patch(ctx, c.Status(), node(name), `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
		}
	}
	all := []string{anAdministrator, aCollector}
	shims := map[string]string{aStandaloneShim: ownNode}
	return map[string]attempt{
		"create a Node":                      {creation(node("n5"), client.DryRunAll), []string{anAdministrator}, nil},
		"taint the Node of a kubelet":        {change(node("n1"), taint), all, shims},
		"taint the Node of a shim":           {change(node("n3"), taint), append(all, aStandaloneShim), nil},
		"taint another shim's Node":          {change(node("n4"), taint), all, shims},
		"say a kubelet's Node is ready":      {ready("n1"), all, shims},
		"say a shim's Node is ready":         {ready("n3"), append(all, aStandaloneShim), nil},
		"say another shim's Node is ready":   {ready("n4"), all, shims},
		"label the Node of a shim by its os": {change(node("n3"), `{"metadata":{"labels":{"kubernetes.io/os":"linux"}}}`), append(all, aStandaloneShim), nil},
		"label the Node of a shim otherwise": {change(node("n3"), `{"metadata":{"labels":{"node-role":"infra"}}}`), all, map[string]string{aStandaloneShim: "a shim may change no labels of its Node"}},
		"take a label from a shim's Node":    {change(node("n3"), `{"metadata":{"labels":{"a":null}}}`), all, map[string]string{aStandaloneShim: "a shim may change no labels of its Node"}},
		"make a shim's Node a kubelet's":     {change(node("n3"), `{"metadata":{"labels":{"managedworkload.dev/registered-by":null}}}`), all, shims},
	}
}

func aboutLeases(i installation) map[string]attempt {
	const renewal = `{"spec":{"holderIdentity":"x"}}`
	renew := func(namespace, name string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			current := &coordinationv1.Lease{}
			if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, current); err != nil {
				return err
			}
			current.Spec.HolderIdentity = ptr.To("x")
			return c.Update(ctx, current, client.DryRunAll)
		}
	}
	all := []string{anAdministrator, aCollector}
	return map[string]attempt{
		"renew the lease of n1's shim":         {renew(i.namespace, "managedworkload-shim-n1"), append(all, aManager, aShim), map[string]string{anotherShim: ownLeases, aStandaloneShim: ownLeases, aShimWithoutNode: unbound}},
		"make the lease of n2's shim":          {creation(lease(i.namespace, "managedworkload-shim-n2"), client.DryRunAll), []string{anAdministrator, aManager, anotherShim}, map[string]string{aShim: ownLeases, aStandaloneShim: ownLeases}},
		"make the lock of the managers":        {creation(lease(i.namespace, "managedworkload-manager"), client.DryRunAll), []string{anAdministrator, aManager}, map[string]string{aShim: ownLeases, aStandaloneShim: ownLeases}},
		"renew a kubelet's lease":              {renew(corev1.NamespaceNodeLease, "n1"), all, map[string]string{aStandaloneShim: ownLeases}},
		"renew the Node lease of n3":           {renew(corev1.NamespaceNodeLease, "n3"), append(all, aStandaloneShim), nil},
		"make a lease in a tenant's namespace": {creation(lease(tenant, "n3"), client.DryRunAll), []string{anAdministrator, anOwner, aBoundOwner}, map[string]string{aStandaloneShim: ownLeases}},
		"confirm orphans by patch":             {change(lease(i.namespace, "managedworkload-shim-n1"), renewal), append(all, aManager), nil},
	}
}

func aboutEvents() map[string]attempt {
	const group = "managedworkload.dev/v1alpha1"
	dry := func(e *corev1.Event) func(context.Context, client.Client) error { return creation(e, client.DryRunAll) }
	all := []string{anAdministrator, aManager, aCollector}
	owners := append(slices.Clone(all), anOwner, aBoundOwner)
	shims := map[string]string{aShim: ownEvents, anotherShim: ownEvents, aStandaloneShim: ownEvents, aShimWithoutNode: unbound}
	return map[string]attempt{
		"write an event about a NodeWorkload from n1": {dry(eventAbout("NodeWorkload", group, tenant, "web-n1", "n1")), append(owners, aShim), map[string]string{anotherShim: ownEvents}},
		"write an event about a NodeWorkload from n9": {dry(eventAbout("NodeWorkload", group, tenant, "web-n1", "n9")), owners, shims},
		"write an event about a Pod from n1":          {dry(eventAbout("Pod", "v1", tenant, "p", "n1")), owners, shims},
		"write an event about Node n1 from n1":        {dry(eventAbout("Node", "v1", "", "n1", "n1")), append(all, aShim), map[string]string{anotherShim: ownEvents}},
		"write an event about Node n2 from n1":        {dry(eventAbout("Node", "v1", "", "n2", "n1")), all, map[string]string{aShim: ownEvents, anotherShim: ownEvents}},
	}
}

func aboutPodsAndTokens(i installation) map[string]attempt {
	owners := []string{anOwner, aBoundOwner, anAdministrator}
	hour, day := int64(3600), int64(24*3600)
	return map[string]attempt{
		"create a Pod as a dry run": {creation(pod("dry"), client.DryRunAll), append(slices.Clone(owners), aManager), nil},
		"create a Pod": {func(ctx context.Context, c client.Client) error {
			p := pod("real")
			if err := c.Create(ctx, p); err != nil {
				return err
			}
			return admin.Delete(ctx, p, client.GracePeriodSeconds(0))
		}, owners, map[string]string{aManager: dryOnly}},
		"get a token of a tenant":                   {tokenOf(tenant, "owner", "", "", hour), append(slices.Clone(owners), anEditor, aBoundEditor), map[string]string{aManager: boundOnly}},
		"get a token of a tenant for two hours":     {tokenOf(tenant, "owner", "Node", "n1", 2*hour), append(slices.Clone(owners), anEditor, aBoundEditor), map[string]string{aManager: boundOnly}},
		"get a token of a tenant bound to n1":       {tokenOf(tenant, "owner", "Node", "n1", hour), append(slices.Clone(owners), aManager, anEditor, aBoundEditor), nil},
		"get a token of another of its accounts":    {tokenOf(tenant, "administrator", "Node", "n1", hour), append(slices.Clone(owners), anEditor, aBoundEditor), map[string]string{aManager: "cannot create"}},
		"get a token of the manager":                {tokenOf(i.namespace, i.account("manager"), "Node", "n3", hour), []string{anAdministrator}, map[string]string{aStandaloneShim: ownToken, aManager: noManagers}},
		"get a token of who may give any right":     {tokenOf(metav1.NamespaceSystem, "clusterrole-aggregation-controller", "Node", "n1", hour), []string{anAdministrator}, map[string]string{aManager: "cannot create"}},
		"get a token of who may read all Secrets":   {tokenOf(metav1.NamespaceSystem, "namespace-controller", "Node", "n1", hour), []string{anAdministrator}, map[string]string{aManager: "cannot create"}},
		"get a token of a shim beside a kubelet":    {tokenOf(i.namespace, i.account("shim"), "Node", "n1", hour), []string{anAdministrator}, map[string]string{aManager: noShims}},
		"get a token of n3's shim for a day":        {tokenOf(i.namespace, i.account("standalone-shim"), "Node", "n3", day), []string{anAdministrator, aStandaloneShim}, map[string]string{aManager: boundOnly}},
		"get a token of n3's shim for two days":     {tokenOf(i.namespace, i.account("standalone-shim"), "Node", "n3", 2*day), []string{anAdministrator}, map[string]string{aStandaloneShim: ownToken}},
		"get a token of n3's shim bound to n4":      {tokenOf(i.namespace, i.account("standalone-shim"), "Node", "n4", hour), []string{anAdministrator}, map[string]string{aStandaloneShim: ownToken}},
		"get a token of n3's shim bound to nothing": {tokenOf(i.namespace, i.account("standalone-shim"), "", "", hour), []string{anAdministrator}, map[string]string{aStandaloneShim: ownToken}},
	}
}
