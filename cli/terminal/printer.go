// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/managedworkload/managedworkload/api/printable"
)

// Colour is a colour of text.
type Colour string

// The colours, as SGR parameters (ECMA-48, 8.3.117).
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Blue   Colour = "34"
	Bold   Colour = "1"
	Faint  Colour = "2"
)

// Printer writes to an output. Its zero value without W is not usable.
type Printer struct {
	W io.Writer
	// Coloured: W shows colours.
	Coloured bool
	err      error
}

// New returns the printer of an output, which is coloured if that is a terminal and
// NO_COLOR is not set (https://no-color.org).
func New(w io.Writer) *Printer {
	file, ok := w.(*os.File)
	coloured := ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
	return &Printer{W: w, Coloured: coloured}
}

// Painted is text that is safe to print, with its colour.
type Painted struct{ text string }

// Paint colours a text.
func (p *Printer) Paint(c Colour, text string) Painted {
	text = printable.Line(text)
	if !p.Coloured || text == "" {
		return Painted{text}
	}
	return Painted{"\x1b[" + string(c) + "m" + text + "\x1b[0m"}
}

// String is the text as it is printed.
func (t Painted) String() string { return t.text }

// Printf formats as fmt does, with the control characters of strings and errors made
// visible. The first error of the output is kept for Err.
func (p *Printer) Printf(format string, args ...any) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = printable.Line(arg)
		case error:
			args[i] = printable.Line(arg.Error())
		}
	}
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.W, format, args...)
	}
}

// Err is the first error of the output.
func (p *Printer) Err() error { return p.err }
