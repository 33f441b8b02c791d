// Package testkit has what the tests of several packages share. The binary does not import it.
package testkit
