// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// The testprogram is what the containers of the tests and of the demo run: it
// answers signals as its flags say, serves health on HTTP, TCP and gRPC, turns unhealthy
// on request, and brings the small commands that hooks and exec probes need in
// an image without a shell. With "pause" it is the pause image too.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

const usage = `usage: testprogram [serve] [flags]
       testprogram COMMAND [arguments]

serve (the default) runs until a stop signal; "testprogram serve -h" lists its flags.
"seq" runs commands one after the other, separated by a lone comma.

Commands:
`

func main() {
	err := run(os.Args[1:])
	var status exitStatus
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &status):
		os.Exit(int(status))
	default:
		fmt.Fprintln(os.Stderr, "testprogram:", err)
		os.Exit(1)
	}
}

// exitStatus ends the program with this code and without a word.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func run(args []string) error {
	switch {
	case len(args) == 0 || strings.HasPrefix(args[0], "-"):
		return serve(args)
	case args[0] == "serve":
		return serve(args[1:])
	case args[0] == "help":
		fmt.Print(usage)
		for _, c := range append(commands(), checks()...) {
			fmt.Printf("  %-34s %s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
		}
		return nil
	}
	return runCommand(args[0], args[1:])
}
