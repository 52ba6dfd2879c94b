// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	apiobjects "github.com/managedworkload/managedworkload/api/objects"
	"github.com/managedworkload/managedworkload/api/subresources/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/objects"
)

const (
	// answerTimeout is how long the API server, and the manager behind it, have to begin a
	// watch.
	answerTimeout = 30 * time.Second
	// The life of a watch is between watchTime and twice that, so that the watches of many
	// nodes spread over the manager's replicas again.
	watchTime = 25 * time.Minute
	// watchGrace is how much longer than asked a watch may take.
	watchGrace = time.Minute
)

// objectClient asks the manager's aggregated API, subresources.managedworkload.dev.
type objectClient struct {
	rest rest.Interface
	node string
}

func newObjectClient(cfg *rest.Config, httpClient *http.Client, node string) (*objectClient, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme of the aggregated API: %w", err)
		}
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion) // Status, as which errors come
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath = "/apis"
	cfg.GroupVersion = &v1alpha1.GroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make the client of the aggregated API: %w", err)
	}
	return &objectClient{rest: client, node: node}, nil
}

// watch begins a watch of the node's objects, which ends after about the given time.
func (c *objectClient) watch(ctx context.Context, life time.Duration) (*objectStream, error) {
	ctx, cancel := context.WithTimeout(ctx, life+watchGrace)
	unanswered := time.AfterFunc(answerTimeout, cancel)
	body, err := c.rest.Get().Resource("nodeobjects").
		Param("watch", "true").
		Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", strconv.Itoa(int(life/time.Second))).
		Param("fieldSelector", fields.OneTermEqualSelector(metav1.ObjectNameField, c.node).String()).
		MaxRetries(0).
		Stream(ctx)
	if !unanswered.Stop() && err == nil {
		err = errors.Join(context.DeadlineExceeded, body.Close())
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch nodeobjects: %w", err)
	}
	return newObjectStream(body, cancel), nil
}

// token asks for a token of the pod's service account; it implements
// objects.TokensConfig.Request.
func (c *objectClient) token(ctx context.Context, pod *corev1.Pod, ask apiobjects.Token) (objects.Issued, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &ask.ExpirationSeconds}}
	request.Name = cmp.Or(pod.Spec.ServiceAccountName, "default") // a changed template may have another
	if ask.Audience != "" {
		request.Spec.Audiences = []string{ask.Audience}
	}
	answer := &authenticationv1.TokenRequest{}
	err := c.rest.Post().Namespace(pod.Namespace).Resource("nodeworkloads").Name(pod.Name).SubResource("token").
		Body(request).MaxRetries(0).Do(ctx).Into(answer)
	if err != nil {
		return objects.Issued{}, fmt.Errorf("request a token for NodeWorkload %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	held, err := checkToken(answer, pod)
	if err != nil {
		return objects.Issued{}, err
	}
	lifetime := time.Until(answer.Status.ExpirationTimestamp.Time)
	if seconds := answer.Spec.ExpirationSeconds; seconds != nil && *seconds > 0 {
		// By this the node's wall clock does not matter.
		lifetime = time.Duration(*seconds) * time.Second
	}
	return objects.Issued{Token: answer.Status.Token, Lifetime: lifetime, Node: held.Kubernetes.Node.UID, Account: held.Kubernetes.ServiceAccount.UID}, nil
}

// checkToken refuses a token of another service account: the template may have changed
// since the pod that asks was made. It returns what the token says of itself, nothing where that
// cannot be read.
func checkToken(answer *authenticationv1.TokenRequest, pod *corev1.Pod) (apiobjects.Claims, error) {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	if answer.Status.Token == "" {
		return apiobjects.Claims{}, errors.New("status.token: the manager's answer has no token")
	}
	want := "system:serviceaccount:" + pod.Namespace + ":" + account
	held, err := apiobjects.ParseClaims(answer.Status.Token)
	if err != nil {
		return apiobjects.Claims{}, nil //nolint:nilerr // the API server may make tokens of another form
	}
	if held.Subject != "" && held.Subject != want {
		return apiobjects.Claims{}, fmt.Errorf("status.token: the manager's answer is a token of %s, not of %s", held.Subject, want)
	}
	return held, nil
}
