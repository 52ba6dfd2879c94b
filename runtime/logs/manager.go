// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/managedworkload/managedworkload/runtime/panics"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
)

const (
	// period is the time between two rounds over all logs. (kubelet
	// containerLogMonitorInterval)
	period = 10 * time.Second
	// A log that grows is looked at after a time between fastest and slowest: when it will
	// have its full size.
	fastest = 100 * time.Millisecond
	slowest = time.Second
	// settle is how long a round waits after a kick, so that many kicks are one round.
	settle = 500 * time.Millisecond
	// patience bounds one question to the runtime: other logs grow meanwhile.
	patience = 10 * time.Second
)

// Container is a container of this shim that the runtime has, as listed.
type Container struct {
	ID, Name, PodNamespace, PodName string
	Running                         bool
}

// Runtime is what the container runtime knows of logs.
type Runtime interface {
	// LogContainers lists the containers that this shim created.
	LogContainers(ctx context.Context) ([]Container, error)
	// LogPath is the log of a container on the node, "" if it has none.
	LogPath(ctx context.Context, id string) (string, error)
	// ReopenLog has the runtime open the log of a running container again by its path.
	ReopenLog(ctx context.Context, id string) error
}

// Config of a Manager.
type Config struct {
	Runtime Runtime
	// MaxSize is the size in bytes from which a log is rotated; a negative one rotates
	// none. MaxFiles is how many files a container has at most.
	MaxSize  int64
	MaxFiles int
	// Links is the directory of links to logs, "" for none. What there points below Root is
	// this manager's.
	Links, Root string
	Logger      logr.Logger
	// Registry takes the metrics; nil leaves them out.
	Registry prometheus.Registerer
}

// Check refuses what cannot be kept; it names the flags.
func (c *Config) Check() error {
	var errs []error
	if c.MaxSize == 0 {
		errs = append(errs, errors.New("--container-log-max-size must not be 0; a negative size turns rotation off"))
	}
	if c.MaxFiles < 2 {
		errs = append(errs, fmt.Errorf("--container-log-max-files must be at least 2, not %d", c.MaxFiles))
	}
	return errors.Join(errs...)
}

// Manager rotates logs and keeps links to them. Everything but Kick belongs to Run.
type Manager struct {
	config    Config
	logs      map[string]*containerLog // by container ID
	unread    []Container              // those whose logs could not be found out
	watch     *watch
	zip       *compressor
	links     *links
	kicked    chan struct{}
	rotations *prometheus.CounterVec
	// resting are containers about which the runtime did not answer, by ID, and until when they
	// are left alone.
	resting map[string]time.Time
	// listing and linking are what rounds fail with.
	listing, linking trouble
}

// containerLog is the log of one container.
type containerLog struct {
	Container
	path string
	// size is what it had when it was looked at last.
	size   int64
	looked time.Time
	// next is when to look at it again; zero: at the next round, or when it grows.
	next time.Time
	// untidy: there may be rotated files to compress, or leftovers.
	untidy bool
	// missing: at the last look there was no log, and the runtime did not open one.
	missing bool
	trouble trouble
}

// New returns a manager that does nothing before Run.
func New(config Config) *Manager {
	m := &Manager{
		config: config, logs: map[string]*containerLog{}, kicked: make(chan struct{}, 1),
		resting: map[string]time.Time{},
		watch:   &watch{}, zip: newCompressor(config.Logger), links: &links{dir: config.Links, root: config.Root},
		rotations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "managedworkload_shim_log_rotations_total",
			Help: "Rotations of container logs, by outcome: Rotated or Failed.",
		}, []string{"outcome"}),
	}
	if config.Registry != nil {
		config.Registry.MustRegister(m.rotations)
	}
	return m
}

// Kick has a round made soon: a container may have been started or removed. It does not
// block.
func (m *Manager) Kick() {
	select {
	case m.kicked <- struct{}{}:
	default:
	}
}

// Run rotates logs until the context is done, and returns when nothing is under way.
func (m *Manager) Run(ctx context.Context) error {
	if m.config.MaxSize < 0 && m.config.Links == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { m.keep(ctx, "compression of logs", m.zip.run) })
	if m.config.MaxSize > 0 {
		if err := m.watch.open(); err != nil {
			m.config.Logger.Info("Growing logs are not announced; all logs are looked at each second", "reason", err.Error())
		}
		beside.Go(func() { m.keep(ctx, "watch of logs", m.watch.run) })
	}
	m.loop(ctx)
	return nil
}

// keep runs what runs beside the loop, after a panic once more.
func (m *Manager) keep(ctx context.Context, part string, run func(context.Context)) {
	for ctx.Err() == nil {
		err := panics.Contain(m.config.Logger, part, func() error {
			run(ctx)
			return nil
		})
		if err == nil {
			return
		}
		sleep(ctx, period)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// loop makes rounds, and looks at logs that grow.
func (m *Manager) loop(ctx context.Context) {
	round := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.kicked:
			if soon := time.Now().Add(settle); soon.Before(round) {
				round = soon
			}
		case <-m.watch.grown():
		case <-timer.C:
		}
		_ = panics.Contain(m.config.Logger, "log rotation", func() error {
			m.begin(m.watch.take())
			if !time.Now().Before(round) {
				round = time.Now().Add(period)
				m.round(ctx)
			}
			m.lookAtGrowing(ctx)
			return nil
		})
		timer.Reset(time.Until(m.nextLook(round)))
	}
}

// begin notes that logs that were quiet grow. They had their known sizes until now.
func (m *Manager) begin(ids []string) {
	now := time.Now()
	for _, id := range ids {
		if l := m.logs[id]; l != nil && l.next.IsZero() {
			l.looked, l.next = now, now.Add(slowest)
		}
	}
}

// nextLook is when to look at a log, at the latest at the round.
func (m *Manager) nextLook(round time.Time) time.Time {
	for _, l := range m.logs {
		if !l.next.IsZero() && l.next.Before(round) {
			round = l.next
		}
	}
	return round
}

// round looks at all logs, and at all links.
func (m *Manager) round(ctx context.Context) {
	listed, err := m.list(ctx)
	m.listing.note(m.config.Logger, err, "Failed to list the containers whose logs are rotated; retrying")
	if !listed {
		return
	}
	m.linking.note(m.config.Logger, m.links.update(m.logs, m.unread), "Failed to update the links to logs; retrying")
	if m.config.MaxSize < 0 {
		return
	}
	for _, l := range m.logs {
		if ctx.Err() != nil {
			return
		}
		if l.Running {
			m.look(ctx, l)
		}
		if l.untidy {
			l.note(m.config.Logger, m.tidy(l))
		}
	}
}

// list learns which containers there are. One whose log cannot be found out is left out.
func (m *Manager) list(ctx context.Context) (listed bool, err error) {
	listing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	containers, err := m.config.Runtime.LogContainers(listing)
	if err != nil {
		return false, err
	}
	m.forgetRested()
	before := m.logs
	m.logs, m.unread = make(map[string]*containerLog, len(containers)), nil
	var errs []error
	for _, c := range containers {
		l := before[c.ID]
		if l == nil && m.rests(c.ID) {
			m.unread = append(m.unread, c)
			continue
		}
		if l == nil {
			path, err := m.logPath(ctx, c.ID)
			if runtimeerror.IsNotFound(err) || err == nil && path == "" {
				continue
			}
			if err != nil {
				m.unread = append(m.unread, c)
				errs = append(errs, err)
				continue
			}
			l = &containerLog{path: path, untidy: true}
		}
		l.Container = c
		if !c.Running {
			l.next = time.Time{}
		}
		m.logs[c.ID] = l
	}
	return true, errors.Join(errs...)
}

// lookAtGrowing looks at the logs whose time has come.
func (m *Manager) lookAtGrowing(ctx context.Context) {
	for _, l := range m.logs {
		if !l.next.IsZero() && !time.Now().Before(l.next) && ctx.Err() == nil {
			m.look(ctx, l)
		}
	}
}

// look measures a log and rotates it if it is large, and decides when to look again. After a
// failure that is the next round.
func (m *Manager) look(ctx context.Context, l *containerLog) {
	l.next = time.Time{}
	if m.rests(l.ID) {
		return
	}
	size, err := logSize(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = m.reopen(ctx, l); err == nil {
			size, err = logSize(l.path)
		} else if !l.missing {
			// The container may have been removed since the last round: the next one knows.
			l.missing = true
			return
		}
	}
	l.missing = false
	if err != nil {
		l.note(m.config.Logger, err)
		return
	}
	grown, took := size-l.size, time.Since(l.looked)
	first := l.looked.IsZero()
	l.size, l.looked = size, time.Now()
	if size >= m.config.MaxSize {
		err := m.rotate(ctx, l)
		m.count(err)
		l.note(m.config.Logger, err)
		if err != nil {
			return
		}
		l.size, l.untidy = 0, true
	} else {
		l.note(m.config.Logger, nil)
	}
	if grown > 0 && !first || !m.quiet(l) {
		l.next = time.Now().Add(m.until(l.size, grown, took))
	}
}

// quiet is whether the watch says it when a log grows from what it had.
func (m *Manager) quiet(l *containerLog) bool {
	if !m.watch.arm(l.ID, l.path) {
		return false
	}
	size, err := logSize(l.path)
	return err == nil && size == l.size
}

// until is how long it takes a log to its full size, as fast as it grew last.
func (m *Manager) until(size, grown int64, took time.Duration) time.Duration {
	if grown <= 0 || took <= 0 {
		return slowest
	}
	left := float64(m.config.MaxSize-size) / float64(grown) * float64(took)
	return time.Duration(min(max(left, float64(fastest)), float64(slowest)))
}

func (m *Manager) count(err error) {
	if err != nil {
		m.rotations.WithLabelValues("Failed").Inc()
		return
	}
	m.rotations.WithLabelValues("Rotated").Inc()
}

func (m *Manager) reopen(ctx context.Context, l *containerLog) error {
	return m.ask(ctx, l.ID, func(ctx context.Context) error { return m.config.Runtime.ReopenLog(ctx, l.ID) })
}

func (m *Manager) logPath(ctx context.Context, id string) (path string, err error) {
	err = m.ask(ctx, id, func(ctx context.Context) error {
		path, err = m.config.Runtime.LogPath(ctx, id)
		return err
	})
	return path, err
}

func (l *containerLog) note(log logr.Logger, err error) {
	log = log.WithValues("namespace", l.PodNamespace, "pod", l.PodName, "container", l.Name, "path", l.path)
	l.trouble.note(log, err, "Failed to rotate a log; retrying")
}

// trouble is an error that is logged once while it lasts.
type trouble string

func (t *trouble) note(log logr.Logger, err error, message string) {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != string(*t) {
		log.Error(err, message)
	}
	*t = trouble(said)
}
