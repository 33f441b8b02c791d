// Package deploy has the files with which operators deploy and watch poold, beside the tests that
// prove these files. Each test runs the program that the file is for.
//
//	prometheus/    alert and recording rules, their stories, and a configuration that loads them
//	grafana/       a dashboard
package deploy
