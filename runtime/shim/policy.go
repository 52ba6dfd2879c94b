// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"context"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

const (
	// policyInterval is the time between two looks at whether the policies are
	// enforced, policyRetry while they are not, or while there is no answer.
	policyInterval = time.Hour
	policyRetry    = 10 * time.Second
)

// policyMessage says what is wrong and what to do.
const policyMessage = "the API server would let this shim change the spec of a NodeWorkload, so the policies of config/policy are not enforced " +
	"and others may, too: nothing new is started; apply config/default as a whole"

// byPolicy are the words of config/policy's own refusal: something else may refuse the
// change as well.
const byPolicy = "only the manager may change spec, labels and annotations"

// forbiddenChange is one that only the manager may make.
const forbiddenChange = `{"spec":{"template":{"metadata":{"annotations":{"managedworkload.dev/is-this-forbidden":"yes"}}}}}`

// policyProbe asks whether the policies that keep NodeWorkloads the manager's are
// enforced: by a dry run of a change that they forbid to this shim.
type policyProbe struct {
	api client.Client
	// asking is held while the API server is asked.
	asking sync.Mutex

	mu sync.Mutex
	// answered is when the API server last said, and tried when it was last asked, by this
	// process's clock; zero if never.
	answered, tried time.Time
	problem         string
}

// asked reports that there was an answer.
func (p *policyProbe) asked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.answered.IsZero()
}

// ask asks about a NodeWorkload of this node when that is due, and returns what is
// wrong, "" for nothing. Without an answer the one before holds.
func (p *policyProbe) ask(ctx context.Context, nw *v1alpha1.NodeWorkload) string {
	p.asking.Lock()
	defer p.asking.Unlock()
	if !p.due() {
		return p.known()
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	object := &v1alpha1.NodeWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: nw.Namespace, Name: nw.Name}}
	err := p.api.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(forbiddenChange)), client.DryRunAll)
	p.mu.Lock()
	defer p.mu.Unlock()
	if apierrors.IsNotFound(err) {
		return p.problem // the next NodeWorkload is asked about
	}
	p.tried = time.Now()
	switch {
	case err == nil:
		p.answered, p.problem = p.tried, policyMessage
	case strings.Contains(err.Error(), byPolicy):
		p.answered, p.problem = p.tried, ""
	}
	return p.problem
}

// due reports whether the last answer, or the last try to get one, is too old.
func (p *policyProbe) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	interval := policyInterval
	if p.problem != "" || p.answered != p.tried {
		interval = policyRetry
	}
	return p.tried.IsZero() || time.Since(p.tried) >= interval
}

// known is what is wrong by the last answer.
func (p *policyProbe) known() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problem
}
