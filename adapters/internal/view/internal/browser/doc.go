// Package browser looks at pages in a real browser, for tests and pictures.
package browser
