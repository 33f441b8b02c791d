package cli

import "io"

// Console is the world outside the process, as commands see it.
type Console struct {
	Lookup func(string) (string, bool) // reads an environment variable
	Stdout io.Writer
	Stderr io.Writer
}

// Env returns the variable's value, or otherwise if it is unset or empty.
func (c *Console) Env(name, otherwise string) string {
	if value, ok := c.Lookup(name); ok && value != "" {
		return value
	}
	return otherwise
}

// UsageError is a mistake on the command line.
type UsageError string

func (e UsageError) Error() string { return string(e) }
