// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package subresources

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/managedworkload/managedworkload/controllers/handshake"
)

// answerTimeout is how long a short answer may take to be read.
const answerTimeout = 30 * time.Second

// handler answers requests.
type handler struct {
	client     client.Client
	gate       *gate
	bounds     *bounds
	encodings  *encodings
	objects    Objects
	references References
	workloads  Workloads
	// tokenRights says what is missing where the API server refuses a token; nil if nothing does.
	tokenRights TokenRights
	usages      *usages
	peers       *peers
	// referencesLag is how long a token waits for what it is asked for to be known.
	referencesLag time.Duration
	// chunkTimeout is how long a caller of a watch may take to read a chunk.
	chunkTimeout time.Duration
	log          logr.Logger
	// said bounds what is logged of refusals, so that no caller fills the log.
	said flowcontrol.PassiveRateLimiter
}

// serve answers about a resource, or returns why not.
type serve func(w http.ResponseWriter, req *http.Request, u user.Info) *metav1.Status

// routes are what the front proxy may ask for.
func (h *handler) routes(front authenticator.Request) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathGroups, serveGroups)
	mux.HandleFunc("GET "+pathGroup, serveGroup)
	mux.HandleFunc("GET "+pathVersion, serveResources)
	mux.HandleFunc("GET "+pathVersion+"/nodeobjects", h.resource(resourceObjects, h.serveObjects))
	mux.HandleFunc("POST "+pathVersion+"/namespaces/{namespace}/nodeworkloads/{name}/token", h.resource(resourceToken, h.serveToken))
	h.usageRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, statusOf("", "", apierrors.NewGenericServerResponse(http.StatusNotFound, "", v1alpha1Resource(""), "", "", 0, true)))
	})
	return h.recovered(h.peers.admit(h.peerRoutes(), authenticated(front, mux)))
}

// userKey is where the context of a request has its user.
type userKey struct{}

func withUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// userOf is the user of a request that authenticated let pass.
func userOf(ctx context.Context) user.Info {
	u, _ := ctx.Value(userKey{}).(user.Info)
	return u
}

// authenticated lets pass whom the front proxy names. A direct caller is refused, even one that
// sends the front proxy's headers, and loses the connection: it costs him a handshake each time.
func authenticated(front authenticator.Request, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout)) // a watch sets its own
		w.Header().Set("Cache-Control", "no-cache, private")
		response, ok, err := front.AuthenticateRequest(req)
		if err != nil || !ok {
			w.Header().Set("Connection", "close")
			fail(w, statusOf("", "", apierrors.NewUnauthorized("Unauthorized")))
			return
		}
		handshake.Recognised(req.Context())
		next.ServeHTTP(w, req.WithContext(withUser(req.Context(), response.User)))
	})
}

// resource counts requests for a resource, and sends and logs what goes wrong.
func (h *handler) resource(name string, serve serve) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		u := userOf(req.Context())
		status := serve(w, req, u)
		code := http.StatusOK
		if status != nil {
			code = int(status.Code)
			if h.said.TryAccept() {
				h.log.Info("Refused a request", "path", req.URL.Path, "user", u.GetName(), "code", code, "reason", status.Message)
			}
			fail(w, status)
		}
		requestsTotal.WithLabelValues(name, strconv.Itoa(code)).Inc()
	}
}

// recovered keeps a panic in its request, and logs it.
func (h *handler) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer func() {
			r := recover()
			if r == nil {
				return
			}
			if r != any(http.ErrAbortHandler) {
				h.log.Error(fmt.Errorf("panic: %v", r), "Recovered from a panic in a request", "path", req.URL.Path, "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler) // the caller must not take half an answer for a whole one
		}()
		next.ServeHTTP(w, req)
	})
}
