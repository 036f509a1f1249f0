// Package fidelitytest shows that a database/sql driver behaves the same with and without package pool over it, whatever optional interfaces
// it has: it is tests only. Each combination is a type of its own, so that the list of all of them is written when the tests run.
package fidelitytest
