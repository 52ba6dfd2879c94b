// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// accountTimeout bounds the question who the manager is.
const accountTimeout = 5 * time.Second

// account is who the manager is: kustomize may have renamed its ServiceAccount.
type account struct {
	client kubernetes.Interface

	mu    sync.Mutex
	known string
}

// flag names the manager for kubectl create rolebinding.
func (a *account) flag(ctx context.Context) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known != "" {
		return a.known
	}
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	review, err := a.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" { // the name that config/ gives it is likely
		return subjectFlag("system:serviceaccount:" + v1alpha1.DefaultNamespace + ":managedworkload-manager")
	}
	a.known = subjectFlag(review.Status.UserInfo.Username)
	return a.known
}

func subjectFlag(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount=" + account
	}
	return fmt.Sprintf("--user=%s", user)
}
