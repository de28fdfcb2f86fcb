package main

func chain(g *asm) {}
