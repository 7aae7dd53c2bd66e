"""Live change: a bridge goes on with what its asset or its options become, and only differences close and open."""
