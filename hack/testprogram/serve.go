// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// never is the value of a duration flag that was not given.
const never = -1 * time.Second

// serveOptions are the flags of serve.
type serveOptions struct {
	onTerm       termination
	termExitCode int
	stopSignals  signalList
	quietStart   time.Duration

	startDelay time.Duration
	exitAfter  time.Duration
	exitCodes  codeList
	countFile  string

	logFile            string
	logByContainer     bool
	mark               string
	heartbeat          time.Duration
	exclusive          string
	terminationMessage string
	health             healthOptions
}

func parseServe(args []string) (serveOptions, error) {
	opts := serveOptions{
		stopSignals: signalList{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT},
		exitCodes:   codeList{0},
	}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.Var(&opts.onTerm, "on-term", "what a stop signal does: exit, ignore or delay:DURATION")
	flags.IntVar(&opts.termExitCode, "term-exit-code", 0, "exit code after a stop signal")
	flags.Var(&opts.stopSignals, "stop-signals", "signals that stop the program; the others are only logged")
	flags.DurationVar(&opts.quietStart, "quiet-start", 0, "log nothing until this long after signals are taken: one that came before ends a Go program, after a moment")
	flags.DurationVar(&opts.startDelay, "start-delay", 0, "wait this long before serving anything")
	flags.DurationVar(&opts.exitAfter, "exit-after", never, "exit by itself after this time")
	flags.Var(&opts.exitCodes, "exit-code", "exit code for --exit-after; with --count-file a list, one for each run, the last for all further ones")
	flags.StringVar(&opts.countFile, "count-file", "", "file that counts the runs")
	flags.StringVar(&opts.logFile, "log-file", "", "append the log to this file as well")
	flags.BoolVar(&opts.logByContainer, "log-by-container", false, "append the container's ID to the name of --log-file")
	flags.StringVar(&opts.mark, "mark", "", "text that only shows in the log")
	flags.DurationVar(&opts.heartbeat, "heartbeat", 0, "log \"alive\" to --log-file this often")
	flags.StringVar(&opts.exclusive, "exclusive", "", "lock this file while running; log it when another process holds it")
	flags.StringVar(&opts.terminationMessage, "termination-message", "", "written to "+terminationLog+" before exiting")
	opts.health.register(flags)
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return opts, nil
}

// serve runs until a stop signal, a request to exit or the end of --exit-after.
func serve(args []string) error {
	opts, err := parseServe(args)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	time.Sleep(opts.quietStart)
	if opts.logByContainer {
		opts.logFile += "." + containerID()
	}
	log, err := openJournal(opts.logFile)
	if err != nil {
		return err
	}
	code, err := countRun(opts.countFile, opts.exitCodes)
	if err != nil {
		return err
	}
	log.printf("started pid=%d args=%q", os.Getpid(), args)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if opts.exclusive != "" {
		if err := lockAlone(opts.exclusive, log); err != nil {
			return err
		}
	}
	go log.beat(ctx, opts.heartbeat)
	time.Sleep(opts.startDelay)
	h := newHealth(opts.health, log)
	servers, err := h.serve(ctx)
	if err != nil {
		return err
	}
	code = wait(opts, signals, h.exit, code, log)
	cancel()
	if err := servers(); err != nil {
		log.printf("serving failed: %v", err)
	}
	if opts.terminationMessage != "" {
		if err := os.WriteFile(terminationLog, []byte(opts.terminationMessage), 0o644); err != nil {
			log.printf("termination message: %v", err)
		}
	}
	log.printf("stopped code=%d", code)
	return exitStatus(code)
}

// wait returns the exit code once the program has a reason to exit.
func wait(opts serveOptions, signals <-chan os.Signal, exit <-chan int, ownCode int, log *journal) int {
	var alarm, delayed <-chan time.Time
	if opts.exitAfter >= 0 {
		alarm = time.After(opts.exitAfter)
	}
	for {
		select {
		case code := <-exit:
			return code
		case <-alarm:
			return ownCode
		case <-delayed:
			return opts.termExitCode
		case received := <-signals:
			sig, _ := received.(syscall.Signal)
			if quiet(sig) {
				continue
			}
			log.printf("signal %s", unix.SignalName(sig))
			if !opts.stopSignals.has(sig) || opts.onTerm.ignore {
				continue
			}
			if opts.onTerm.delay == 0 {
				logLate(signals, log)
				return opts.termExitCode
			}
			if delayed == nil {
				delayed = time.After(opts.onTerm.delay)
			}
		}
	}
}

// logLate logs signals that were sent before one that arrived already: each may wait for
// another thread to run.
func logLate(signals <-chan os.Signal, log *journal) {
	for range 1000 {
		if !signalsPending() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for {
		select {
		case received := <-signals:
			if sig, _ := received.(syscall.Signal); !quiet(sig) {
				log.printf("signal %s", unix.SignalName(sig))
			}
		case <-time.After(2 * time.Millisecond):
			return
		}
	}
}

// signalsPending reports that signals were sent to the process and no thread has taken
// them yet. (proc_pid_status(5), ShdPnd)
func signalsPending() bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, mask, found := strings.Cut(string(status), "ShdPnd:")
	mask, _, _ = strings.Cut(mask, "\n")
	return found && strings.Trim(mask, "0\t ") != ""
}

// quiet handles the signals that say nothing about the container's life: the Go
// runtime's own, and those of children, which process 1 has to reap.
func quiet(sig syscall.Signal) bool {
	if sig == unix.SIGCHLD {
		reap()
	}
	return sig == unix.SIGCHLD || sig == unix.SIGURG || sig == unix.SIGPIPE
}

func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
	}
}

// countRun adds one to the count in file and picks that run's exit code.
func countRun(file string, codes codeList) (int, error) {
	run := 0
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		if len(data) > 0 {
			if run, err = strconv.Atoi(strings.TrimSpace(string(data))); err != nil {
				return 0, fmt.Errorf("count in %s: %w", file, err)
			}
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(run+1)), 0o644); err != nil {
			return 0, err
		}
	}
	return codes[min(run, len(codes)-1)], nil
}

// pause waits as the process that holds a pod's namespaces, and reaps.
func pause() error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGCHLD)
	for sig := range signals {
		if sig != unix.SIGCHLD {
			break
		}
		reap()
	}
	return nil
}
