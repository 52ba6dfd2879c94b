// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/admission"
	"github.com/managedworkload/managedworkload/controllers/objects"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// fakeObjects answers what a test says.
type fakeObjects struct {
	answer objects.Availability
	err    error
	asked  []apiobjects.Ref
	// keys are those that are missing, and askedKeys those that were asked about.
	keys, askedKeys []apiobjects.KeyRef
	// noToken is what is missing for tokens, and account whose were asked about.
	noToken, account string
	// before is called when it is asked.
	before func()
}

func (f *fakeObjects) Availability(_ context.Context, _ string, refs []apiobjects.Ref) (objects.Availability, error) {
	f.asked = refs
	if f.before != nil {
		f.before()
	}
	return f.answer, f.err
}

func (f *fakeObjects) MissingKeys(_ context.Context, _ string, refs []apiobjects.KeyRef) ([]apiobjects.KeyRef, error) {
	f.askedKeys = refs
	return f.keys, f.err
}

func (f *fakeObjects) TokenRight(_ context.Context, _, account string) (string, error) {
	f.account = account
	return f.noToken, f.err
}

// The condition says what nodes do not get, with the command that changes it, once in an
// event, and comes and goes with the references of the template.
func TestObjectsAvailable(t *testing.T) {
	mw := workloadInMemory()
	optional := true
	containers := slices.Clone(mw.Spec.Template.Spec.Containers)
	containers[0].EnvFrom = []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "tls"}}},
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "extra"}, Optional: &optional}},
	}
	mix := apiobjects.KeyRef{Ref: apiobjects.Ref{Kind: apiobjects.ConfigMap, Name: "mix"}, Name: "l"}
	containers[0].Env = append(containers[0].Env, corev1.EnvVar{Name: "MIX", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "mix"}, Key: mix.Name,
	}}})
	mw.Spec.Template.Spec.Containers = containers
	b := newBench(t, interceptor.Funcs{}, mw)
	b.admission = admission.NewJudge(b.client, admission.Options{})
	known := &fakeObjects{}
	b.fleet.Objects = known
	tls, extra := apiobjects.Ref{Kind: apiobjects.Secret, Name: "tls"}, apiobjects.Ref{Kind: apiobjects.ConfigMap, Name: "extra"}
	expect := func(what, want, wantEvent string) {
		t.Helper()
		res, mw, err := b.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		if c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionObjectsAvailable); c != nil {
			got = string(c.Status) + " " + c.Reason + ": " + c.Message
		}
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		warnings := slices.DeleteFunc(b.drain(""), func(e string) bool {
			return !strings.HasPrefix(e, corev1.EventTypeWarning) || strings.Contains(e, v1alpha1.ReasonNoMatchingNodes)
		})
		if events := strings.Join(warnings, "; "); events != wantEvent {
			t.Errorf("%s: events %q, want %q", what, events, wantEvent)
		}
		if strings.HasPrefix(got, "False") && res.RequeueAfter > objects.Recheck || got != "none" && res.RequeueAfter == 0 {
			t.Errorf("%s: looked at again after %s", what, res.RequeueAfter)
		}
		if managertest.Kstatus(mw) != "Current" {
			t.Errorf("%s: kstatus %s", what, managertest.Kstatus(mw))
		}
	}
	known.answer = objects.Availability{NotFound: []apiobjects.Ref{extra}}
	expect("an optional one is missing", "True ObjectsAvailable: nodes get all objects that the template refers to", "")
	if len(known.asked) != 3 || !slices.Equal(known.askedKeys, []apiobjects.KeyRef{mix}) {
		t.Errorf("asked for %v and %v", known.asked, known.askedKeys)
	}
	known.answer = objects.Availability{NotFound: []apiobjects.Ref{extra, tls}}
	expect("missing", `False ObjectNotFound: not found: secret "tls"`, `Warning ObjectNotFound not found: secret "tls"`)
	known.keys = []apiobjects.KeyRef{mix}
	expect("an object and a key", `False ObjectNotFound: not found: secret "tls"; not found: key "l" of configmap "mix"`,
		`Warning ObjectNotFound not found: secret "tls"; not found: key "l" of configmap "mix"`)
	known.answer = objects.Availability{}
	expect("a key", `False KeyNotFound: not found: key "l" of configmap "mix"`, `Warning KeyNotFound not found: key "l" of configmap "mix"`)
	known.keys, known.answer = nil, objects.Availability{NotFound: []apiobjects.Ref{extra, tls}}
	known.answer.TooMuch = "more than 32 MiB"
	expect("too much", `False ObjectsTooLarge: not found: secret "tls"; more than 32 MiB`, `Warning ObjectsTooLarge not found: secret "tls"; more than 32 MiB`)
	known.answer.TooMuch = ""
	known.answer.NoRight, known.answer.Message = []apiobjects.Ref{extra}, "run: kubectl x"
	known.answer.NotFound = known.answer.NotFound[1:]
	expect("no right", `False NoRight: not found: secret "tls"; run: kubectl x`, `Warning NoRight not found: secret "tls"; run: kubectl x`)
	known.err = errors.New("the API server is away")
	expect("no answer", `False NoRight: not found: secret "tls"; run: kubectl x`, "")
	known.err, known.answer = nil, objects.Availability{}
	expect("all is there", "True ObjectsAvailable: nodes get all objects that the template refers to", "")

	current := &v1alpha1.ManagedWorkload{}
	if err := b.client.Get(t.Context(), request("default", "web").NamespacedName, current); err != nil {
		t.Fatal(err)
	}
	current.Spec.Template.Spec.Containers[0].EnvFrom, current.Spec.Template.Spec.Containers[0].Env, current.Generation = nil, nil, 2
	if err := b.client.Update(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	expect("no references", "none", "")
}

// A service account that does not exist is named, where the template asks for its token.
func TestAccountOfTokensIsMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		volumes []corev1.Volume
		want    string
	}{
		"token": {
			[]corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}}}, `ObjectNotFound: not found: serviceaccount "agent"`,
		},
		"no token": {
			[]corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}}}},
			"ObjectsAvailable: nodes get all objects that the template refers to",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mw := workloadInMemory()
			mw.Spec.Template.Spec.ServiceAccountName, mw.Spec.Template.Spec.Volumes = "agent", tt.volumes
			b := newBench(t, interceptor.Funcs{}, mw)
			b.admission = admission.NewJudge(b.client, admission.Options{})
			account := apiobjects.AccountRef("agent")
			known := &fakeObjects{answer: objects.Availability{NotFound: []apiobjects.Ref{account}}}
			b.fleet.Objects = known
			_, mw, err := b.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionObjectsAvailable)
			if c == nil || c.Reason+": "+c.Message != tt.want || slices.Contains(known.asked, account) != (name == "token") {
				t.Errorf("condition %v, want %s; asked for %v", c, tt.want, known.asked)
			}
		})
	}
}

// Nodes get their NodeWorkloads first: an API server that cannot read Secrets delays what is
// said of them, and no roll-out.
func TestNodesDoNotWaitForObjects(t *testing.T) {
	mw := workloadInMemory()
	mw.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	b := newBench(t, interceptor.Funcs{}, mw)
	b.admission = admission.NewJudge(b.client, admission.Options{})
	revisions := &v1alpha1.ManagedWorkloadRevisionList{}
	known := &fakeObjects{err: errors.New("timeout")}
	known.before = func() {
		if err := b.client.List(t.Context(), revisions); err != nil {
			t.Error(err)
		}
	}
	b.fleet.Objects = known
	if _, _, err := b.reconcile(); err != nil {
		t.Fatal(err)
	}
	if len(known.asked) != 1 || len(revisions.Items) != 1 {
		t.Errorf("asked for %v with %d revisions", known.asked, len(revisions.Items))
	}
}

// What is not served is not there: a template from before the component was removed says so.
// A template that is refused refers to nothing that matters.
func TestObjectsOfAnotherInstallation(t *testing.T) {
	mw := workloadInMemory()
	mw.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
	b := newBench(t, interceptor.Funcs{}, mw)
	b.admission = admission.NewJudge(b.client, admission.Options{})
	_, got, err := b.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionObjectsAvailable)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonObjectsNotServed || c.Message != "the component objects is not installed" {
		t.Errorf("not installed: %v", c)
	}
	got.Spec.Template.Spec.EphemeralContainers, got.Generation = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "x"}}}, 2
	if err := b.client.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if _, got, err = b.reconcile(); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionFalse(got.Status.Conditions, v1alpha1.ConditionAccepted) {
		t.Fatalf("the template is not refused: %v", got.Status.Conditions)
	}
	if c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionObjectsAvailable); c != nil {
		t.Errorf("of a refused template: %v", c)
	}
}

// A right that the namespace took away from a template that runs is said with the command that gives
// it back: its containers keep a token that is not renewed.
func TestTokenRightOfAnAdmittedTemplate(t *testing.T) {
	mw := workloadInMemory()
	mw.Spec.Template.Spec.ServiceAccountName = "web"
	mw.Spec.Template.Spec.Volumes = append(mw.Spec.Template.Spec.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}},
	}})
	b := newBench(t, interceptor.Funcs{}, mw)
	b.admission = admission.NewJudge(b.client, admission.Options{})
	known := &fakeObjects{noToken: "the manager may not make tokens; run: kubectl x"}
	b.fleet.Objects = known
	for _, want := range []string{"False NoRight: the manager may not make tokens; run: kubectl x", "True ObjectsAvailable: nodes get all objects that the template refers to"} {
		_, mw, err := b.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(mw.Status.Conditions, v1alpha1.ConditionObjectsAvailable)
		if c == nil || string(c.Status)+" "+c.Reason+": "+c.Message != want || known.account != "web" {
			t.Errorf("condition %v about account %q, want %s", c, known.account, want)
		}
		known.noToken = ""
	}
}
