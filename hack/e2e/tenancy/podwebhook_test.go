// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// answerReviews answers reviews until the test has ended; answer returns a JSON Patch, or an error to
// refuse with.
func answerReviews(t *testing.T, answer func(ctx context.Context, dryRun bool) (string, error)) admissionregistrationv1.WebhookClientConfig {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID}
		patch, err := answer(r.Context(), ptr.Deref(review.Request.DryRun, false))
		if review.Response.Allowed = err == nil; err != nil {
			review.Response.Result = &metav1.Status{Message: err.Error()}
		} else if patch != "" {
			review.Response.Patch, review.Response.PatchType = []byte(patch), ptr.To(admissionv1.PatchTypeJSONPatch)
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	return admissionregistrationv1.WebhookClientConfig{
		URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
}

// podWebhook has the API server ask about the tenant's Pods.
func podWebhook(t *testing.T, effects admissionregistrationv1.SideEffectClass, answer func(ctx context.Context, dryRun bool) (string, error)) {
	t.Helper()
	create(t, &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "tenancy-pods"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "pods.tenancy.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &effects, TimeoutSeconds: ptr.To[int32](1),
			ClientConfig:      answerReviews(t, answer),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: tenant}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	})
}

// installed is config/ with a running manager, a namespace and a node.
func installed(t *testing.T) installation {
	t.Helper()
	i := installation{namespace: "managedworkload-system"}
	i.apply(t)
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}})
	createNode(t, i, "p1", nil)
	await(t, "the namespace's account", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: tenant, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() { letGo(t) })
	runManager(t, i, false)
	return i
}

// What a mutating webhook made of a template runs; one that answers differently each time
// rolls nothing, and a new node gets what the others have.
func TestPodWebhookThatAnswersDifferently(t *testing.T) {
	i := installed(t)
	var asked atomic.Int64
	podWebhook(t, admissionregistrationv1.SideEffectClassNone, func(context.Context, bool) (string, error) {
		return fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{"nonce":"%d"}}]`, asked.Add(1)), nil
	})
	mw := managedWorkload("web")
	create(t, mw)
	first := onNode(t, "p1")
	if first.Spec.Template.Annotations["nonce"] == "" {
		t.Fatalf("annotations %v: the webhook changed nothing", first.Spec.Template.Annotations)
	}
	// Labels by which PodSecurity judges: it is asked again.
	label(t, "enforce", `"privileged"`)
	says(t, mw, v1alpha1.ConditionAccepted, "admission would change the template now; what it admitted stays")
	createNode(t, i, "p2", nil)
	second := onNode(t, "p2")
	if diff := cmp.Diff(first.Spec.Template, second.Spec.Template); diff != "" {
		t.Errorf("templates of the nodes (-first +second):\n%s", diff)
	}
	if now := onNode(t, "p1"); now.Generation != first.Generation {
		t.Errorf("generation %d, want %d: the first node was changed", now.Generation, first.Generation)
	}
}

// A webhook that takes no dry runs refuses, and one that is too slow is
// asked again until it answers.
func TestPodWebhookThatDoesNotAnswer(t *testing.T) {
	installed(t)
	t.Run("it cannot be asked", func(t *testing.T) {
		podWebhook(t, admissionregistrationv1.SideEffectClassNoneOnDryRun, func(_ context.Context, dryRun bool) (string, error) {
			if dryRun {
				return "", errors.New("no dry runs here")
			}
			return "[]", nil
		})
		mw := managedWorkload("effects")
		create(t, mw)
		says(t, mw, v1alpha1.ConditionAccepted, "no dry runs here")
	})
	t.Run("it is slow", func(t *testing.T) {
		var fast atomic.Bool
		podWebhook(t, admissionregistrationv1.SideEffectClassNone, func(ctx context.Context, _ bool) (string, error) {
			if !fast.Load() {
				<-ctx.Done()
			}
			return "[]", nil
		})
		mw := managedWorkload("slow")
		create(t, mw)
		says(t, mw, v1alpha1.ConditionAccepted, "failed calling webhook")
		fast.Store(true)
		says(t, mw, v1alpha1.ConditionAccepted, "the template is accepted")
	})
}
