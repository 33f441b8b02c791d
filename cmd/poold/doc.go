// Command poold keeps pools of CAPTCHA tokens that a solving service solved
// ahead of time, and hands them out in milliseconds.
//
// main calls run, which end-to-end tests call too. Each sub-command has a file
// of its own; serve.go wires the packages together and is the place to see who
// gives what to whom. client.go holds what the commands that ask a running
// daemon share.
package main
