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
	typedauthenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// accountTimeout bounds the question who the manager is.
const accountTimeout = 5 * time.Second

// managerAccount and objectsRole are the names that config/ gives the manager's ServiceAccount
// and the ClusterRole of what a namespace lets it read.
const (
	managerAccount = "managedworkload-manager"
	objectsRole    = "managedworkload-objects"
)

// account is who the manager is: kustomize may have renamed its ServiceAccount.
type account struct {
	client typedauthenticationv1.SelfSubjectReviewsGetter

	mu    sync.Mutex
	known string
}

// serviceAccount begins the user name of a ServiceAccount.
const serviceAccount = "system:serviceaccount:"

// user returns the manager's user name.
func (a *account) user(ctx context.Context) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known != "" {
		return a.known
	}
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	review, err := a.client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" { // the name that config/ gives it is likely
		return serviceAccount + v1alpha1.DefaultNamespace + ":" + managerAccount
	}
	a.known = review.Status.UserInfo.Username
	return a.known
}

// binding returns the arguments of kubectl create rolebinding that name the role and the manager.
func (a *account) binding(ctx context.Context) string { return bindingOf(a.user(ctx)) }

// subject returns the argument of kubectl create rolebinding that names the manager.
func (a *account) subject(ctx context.Context) string { return subjectOf(a.user(ctx)) }

// bindingOf is that for a user. A prefix or suffix of the account's name is the role's, too.
func bindingOf(user string) string {
	role := objectsRole
	if account, ok := strings.CutPrefix(user, serviceAccount); ok {
		if _, name, _ := strings.Cut(account, ":"); strings.Contains(name, managerAccount) {
			role = strings.Replace(name, managerAccount, objectsRole, 1)
		}
	}
	return fmt.Sprintf("--clusterrole=%s %s", role, subjectOf(user))
}

func subjectOf(user string) string {
	if account, ok := strings.CutPrefix(user, serviceAccount); ok {
		return "--serviceaccount=" + account
	}
	return "--user=" + user
}
