// Package testkit has helpers that the tests of several packages share. The poold binary does not
// import it.
package testkit
