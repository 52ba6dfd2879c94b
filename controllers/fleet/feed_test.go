// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/hack/managertest"
)

// apiOf is an API server with n NodeWorkloads, that can stream them or only give them in
// pages.
type apiOf struct {
	n      int
	stream bool
	// most is how many it gave at once.
	most int
	// watched gets each watch that continues.
	watched chan string
}

func (a *apiOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	if query.Get("watch") == "" {
		a.list(w, query.Get("continue"), query.Get("limit"))
		return
	}
	if query.Get("sendInitialEvents") == "true" {
		if !a.stream {
			http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`, http.StatusUnprocessableEntity)
			return
		}
		for i := range a.n {
			send(w, `{"type":"ADDED","object":%s}`+"\n", a.object(i))
		}
		send(w, `{"type":"BOOKMARK","object":{"apiVersion":"managedworkload.dev/v1alpha1","kind":"NodeWorkload",`+
			`"metadata":{"resourceVersion":"100000","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
	}
	changed := managertest.NodeWorkload("n0", "mw")
	changed.Namespace, changed.ResourceVersion, changed.Kind, changed.APIVersion = "default", "100001", "NodeWorkload", v1alpha1.GroupVersion.String()
	changed.Status.Phase = "Running"
	data, _ := json.Marshal(changed)
	send(w, `{"type":"MODIFIED","object":%s}`+"\n", data)
	_ = http.NewResponseController(w).Flush()
	a.watched <- query.Get("resourceVersion")
	<-r.Context().Done()
}

func send(w http.ResponseWriter, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...) // the client may be gone
}

func (a *apiOf) object(i int) []byte {
	nw := managertest.NodeWorkload(fmt.Sprint("n", i), "mw", managertest.Kill("k", i, v1alpha1.KillPhaseDone, v1alpha1.KillOutcomeForced))
	nw.Namespace, nw.ResourceVersion, nw.Kind, nw.APIVersion = "default", fmt.Sprint(i+1), "NodeWorkload", v1alpha1.GroupVersion.String()
	data, _ := json.Marshal(nw)
	return data
}

func (a *apiOf) list(w http.ResponseWriter, from, limit string) {
	first, _ := strconv.Atoi(from)
	most, err := strconv.Atoi(limit)
	if err != nil {
		most = a.n
	}
	end, next := min(first+most, a.n), ""
	if end < a.n {
		next = strconv.Itoa(end)
	}
	a.most = max(a.most, end-first)
	send(w, `{"apiVersion":"managedworkload.dev/v1alpha1","kind":"NodeWorkloadList","metadata":{"resourceVersion":"100000","continue":%q},"items":[`, next)
	for i := first; i < end; i++ {
		if i > first {
			send(w, ",")
		}
		_, _ = w.Write(a.object(i))
	}
	send(w, "]}")
}

// The index is filled by a stream, or page by page where the API server has no streams, and
// continues with the changes that follow.
func TestFeed(t *testing.T) {
	for name, stream := range map[string]bool{"streamed": true, "in pages": false} {
		t.Run(name, func(t *testing.T) {
			api := &apiOf{n: 2*listPage + 1, stream: stream, watched: make(chan string, 1)}
			server := httptest.NewServer(api)
			defer server.Close()
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(v1alpha1.GroupVersion.WithKind("NodeWorkload"), meta.RESTScopeNamespace)
			c, err := client.NewWithWatch(&rest.Config{Host: server.URL}, client.Options{Scheme: managertest.Scheme(t), Mapper: mapper})
			if err != nil {
				t.Fatal(err)
			}
			kills := newLedger()
			x := NewIndex(kills, kills.shims)
			changed := make(chan *Share, 1)
			ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
			done := make(chan struct{})
			go func() {
				defer close(done)
				x.Run(ctx, c)
			}()
			if err := x.WaitForSync(ctx); err != nil {
				t.Fatal(err)
			}
			x.Listen(func(c Change) {
				if c.New.Phase == "Running" {
					changed <- c.New
				}
			})
			<-api.watched
			select {
			case <-changed:
			case <-time.After(10 * time.Second):
				t.Error("the change does not arrive")
			}
			if n := x.Count("mw"); n != api.n || !x.Seen("100001") {
				t.Errorf("%d shares, want %d; seen: %v", n, api.n, x.Seen("100001"))
			}
			if share := x.Get(types.NamespacedName{Namespace: "default", Name: managertest.NodeWorkload("n5", "mw").Name}); share == nil || share.Node != "n5" {
				t.Errorf("share of n5: %+v", share)
			}
			if pending := kills.Pending("mw", time.Time{}); len(pending.Records) != maxRecentKills || len(pending.Further) != maxFurther {
				t.Errorf("%d kills and %d further ones", len(pending.Records), len(pending.Further))
			}
			if want := map[bool]int{false: listPage}[stream]; api.most != want {
				t.Errorf("%d were given at once, want %d", api.most, want)
			}
			cancel()
			<-done
		})
	}
}
