module flametree/bench

go 1.24
