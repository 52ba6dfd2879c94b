// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/controllers/webhook"
)

// refusedTemplates are Pod specs that no Pod or no shim can have, with what is said when
// they are applied.
var refusedTemplates = map[string]struct {
	spec  string
	words []string
}{
	"no containers":  {`{containers: []}`, []string{"spec.template.spec.containers"}},
	"no image":       {`{containers: [{name: c}]}`, []string{"spec.template.spec.containers[0].image: Required value"}},
	"a bad name":     {`{containers: [{name: Bad_Name, image: i}]}`, []string{"spec.template.spec.containers[0].name"}},
	"a bad port":     {`{containers: [{name: c, image: i, ports: [{containerPort: 70000}]}]}`, []string{"spec.template.spec.containers[0].ports[0].containerPort"}},
	"negative grace": {`{terminationGracePeriodSeconds: -1, containers: [{name: c, image: i}]}`, []string{"spec.template.spec.terminationGracePeriodSeconds"}},
	"two of a name": {
		`{containers: [{name: c, image: i}, {name: c, image: i}]}`, []string{"spec.template.spec.containers[1]"},
	},
	"a claim and a probe without an action": {
		`{containers: [{name: c, image: i, livenessProbe: {}}], volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]}`,
		[]string{
			"spec.template.spec.volumes[0].persistentVolumeClaim", "volumes of this kind are not supported; keep the data in a hostPath directory",
			"spec.template.spec.containers[0].livenessProbe: Required value: must specify a handler type",
		},
	},
	"privileged": {
		`{containers: [{name: c, image: i, securityContext: {privileged: true}}]}`,
		[]string{"spec.template: ", "violates PodSecurity", "privileged"},
	},
}

func written(t *testing.T, name, spec string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "workload.yaml")
	text := fmt.Sprintf("apiVersion: managedworkload.dev/v1alpha1\nkind: ManagedWorkload\n"+
		"metadata: {name: %s, namespace: %s}\nspec: {template: {metadata: {labels: {a: b}}, spec: %s}}\n", name, tenant, spec)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// What would be refused later is refused when it is applied, with all reasons; while the
// webhook is away it is stored, and the manager says why in Accepted.
func TestRefusedAtApply(t *testing.T) {
	for name, i := range map[string]installation{
		"as it is": {namespace: "managedworkload-system"},
		"renamed": {
			edit:   "namePrefix: team-a-\nnameSuffix: -blue\nnamespace: other-system\n",
			prefix: "team-a-", suffix: "-blue", namespace: "other-system",
		},
	} {
		t.Run(name, func(t *testing.T) { refusedAtApply(t, i) })
	}
}

func refusedAtApply(t *testing.T, i installation) {
	t.Helper()
	i.apply(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}}
	create(t, ns)
	await(t, "the namespace's account", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKey{Namespace: tenant, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() { letGo(t) })
	const claim = `{containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: v}}]}`
	_, err := stack.Kubectl(t.Context(), "apply", "-f", written(t, "early", claim))
	if err != nil {
		t.Fatalf("while the webhook is away: %v", err)
	}
	early := managedWorkload("early")

	// The manager waits for the configuration that names its webhook.
	_, err = stack.Kubectl(t.Context(), "delete", "validatingwebhookconfiguration", i.account("webhook"))
	must(t, err)
	runManager(t, i, true)
	says(t, early, v1alpha1.ConditionAccepted, "RefusedFields: spec.template.spec.volumes[0].persistentVolumeClaim")
	i.applyAgain(t)
	await(t, "a refusal at apply", func(ctx context.Context) error {
		if _, err := stack.Kubectl(ctx, "apply", "--dry-run=server", "-f", written(t, "late", claim)); err == nil {
			return errors.New("it passes")
		}
		return nil
	})
	for name, tt := range refusedTemplates {
		t.Run(name, func(t *testing.T) {
			file := written(t, "refused", tt.spec)
			for _, args := range [][]string{{"apply", "--dry-run=server", "-f", file}, {"apply", "-f", file}} {
				_, err := stack.Kubectl(t.Context(), args...)
				if err == nil {
					t.Fatalf("kubectl %v passes", args[:2])
				}
				for _, words := range tt.words {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("kubectl %v says %q, want %q", args[:2], err, words)
					}
				}
			}
		})
	}

	t.Run("asked by somebody else", func(t *testing.T) {
		for _, path := range []string{webhook.Path, webhook.Path + "/", webhook.Path + "/guess"} {
			if code := askDirectly(t, path); code != http.StatusNotFound {
				t.Errorf("%s: answer %d, want none", path, code)
			}
		}
	})

	t.Run("while admission is slow", func(t *testing.T) {
		podWebhook(t, admissionregistrationv1.SideEffectClassNone, func(ctx context.Context, _ bool) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		said, talking := listen(t)
		await(t, "a warning that admission could not be asked", func(ctx context.Context) error {
			err := talking.Create(ctx, managedWorkload("slow"), client.DryRunAll)
			if err == nil && !strings.Contains(said.all(), "admission could not be asked about the template now") {
				err = fmt.Errorf("warnings %q", said.all())
			}
			return err
		})
	})

	said, talking := listen(t)
	mw := managedWorkload("web")
	mw.Spec.Template.Spec.SchedulerName = "mine"
	mw.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriodSeconds: "5s"}
	must(t, talking.Create(t.Context(), mw))
	for _, words := range []string{"spec.template.spec.schedulerName is ignored", v1alpha1.AnnotationDeletionGracePeriodSeconds} {
		if !strings.Contains(said.all(), words) {
			t.Errorf("warnings %q, want %q", said.all(), words)
		}
	}

	// A namespace that becomes stricter does not keep its people from a label.
	label(t, "enforce", `"restricted"`)
	if _, err := stack.Kubectl(t.Context(), "label", "mw", "web", "-n", tenant, "team=a"); err != nil {
		t.Error(err)
	}
	_, err = stack.Kubectl(t.Context(), "patch", "mw", "web", "-n", tenant, "--type=json",
		"-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"other"}]`)
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("error %v, want a refusal by PodSecurity", err)
	}
}

// askDirectly asks the webhook as the API server would, in the name of an administrator.
func askDirectly(t *testing.T, path string) int {
	t.Helper()
	const review = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","operation":"CREATE","namespace":"kube-system",
		"userInfo":{"username":"admin","groups":["system:masters"]},"object":{"apiVersion":"managedworkload.dev/v1alpha1","kind":"ManagedWorkload",
		"metadata":{"name":"x","namespace":"kube-system"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+stack.WebhookAddress()+path, strings.NewReader(review))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // #nosec G402 -- as an attacker
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	must(t, err)
	must(t, res.Body.Close())
	return res.StatusCode
}

// listen returns a client and the warnings that it gets.
func listen(t *testing.T) (*warnings, client.Client) {
	t.Helper()
	said, config := &warnings{}, stack.RESTConfig()
	config.WarningHandler = said
	talking, err := client.New(config, client.Options{Scheme: admin.Scheme(), Mapper: admin.RESTMapper()})
	must(t, err)
	return said, talking
}

// warnings are what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader keeps a warning.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

func (w *warnings) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.text, "\n")
}
