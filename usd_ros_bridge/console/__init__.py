"""What people see on a terminal: tables, trees and the live view."""
